locals {
  # `make check` proves that these files declare exactly the indexes that Carrel's queries need.
  index_files = {
    "(default)" = jsondecode(file("${path.module}/../build/firestore.indexes.json"))
    "access"    = jsondecode(file("${path.module}/../build/access.indexes.json"))
  }

  # Indexes by keys such as "(default) chunks: facets CONTAINS, embedding VECTOR".
  indexes = merge([for database, file in local.index_files : {
    for index in file.indexes : join("", [
      "${database} ${index.collectionGroup}${index.queryScope == "COLLECTION" ? "" : " of all"}: ",
      join(", ", [for field in index.fields :
        "${field.fieldPath} ${try(field.order, field.arrayConfig, "VECTOR")}"
      ]),
    ]) => merge(index, { database = database })
  }]...)

  fields = merge([for database, file in local.index_files : {
    for field in file.fieldOverrides :
    "${database} ${field.collectionGroup}: ${field.fieldPath}" => merge(field, { database = database })
  }]...)
}

# Terraform waits until an index is ready, so that functions can use it as soon as they are deployed.
resource "google_firestore_index" "carrel" {
  for_each    = local.indexes
  database    = local.database_names[each.value.database]
  collection  = each.value.collectionGroup
  query_scope = each.value.queryScope

  # Firestore inserts __name__ before a vector. The provider recognizes it only at this position;
  # otherwise it would recreate the index in each run.
  # https://github.com/firebase/firebase-tools/pull/9407
  dynamic "fields" {
    for_each = concat(
      [for field in each.value.fields : field if !can(field.vectorConfig)],
      [for field in each.value.fields : { fieldPath = "__name__", order = "ASCENDING" } if can(field.vectorConfig)],
      [for field in each.value.fields : field if can(field.vectorConfig)],
    )

    content {
      field_path   = fields.value.fieldPath
      order        = try(fields.value.order, null)
      array_config = try(fields.value.arrayConfig, null)

      dynamic "vector_config" {
        for_each = can(fields.value.vectorConfig) ? [var.embedding_dimension] : []

        content {
          dimension = vector_config.value
          flat {}
        }
      }
    }
  }

  timeouts {
    create = "90m" # for many documents
    delete = "90m"
  }
}

resource "google_firestore_field" "carrel" {
  for_each   = local.fields
  database   = local.database_names[each.value.database]
  collection = each.value.collectionGroup
  field      = each.value.fieldPath

  index_config {
    dynamic "indexes" {
      for_each = each.value.indexes

      content {
        query_scope  = indexes.value.queryScope
        order        = try(indexes.value.order, null)
        array_config = try(indexes.value.arrayConfig, null)
      }
    }
  }

  dynamic "ttl_config" {
    for_each = try(each.value.ttl, false) ? ["on"] : []
    content {}
  }

  timeouts {
    create = "90m"
    update = "90m"
    delete = "90m" # the automatic indexes are rebuilt
  }
}
