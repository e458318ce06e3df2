locals {
  # The files that the tests prove complete, and the emulator reads too.
  index_files = {
    "(default)" = jsondecode(file("${path.module}/../../firestore.indexes.json"))
    "access"    = jsondecode(file("${path.module}/../build/access.indexes.json"))
  }

  # Of each index: what tells it from others, such as "(default) chunks: facets CONTAINS, embedding VECTOR".
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

# It is made when it is ready, so what depends on it can ask at once.
resource "google_firestore_index" "carrel" {
  for_each    = local.indexes
  database    = local.database_names[each.value.database]
  collection  = each.value.collectionGroup
  query_scope = each.value.queryScope

  # Firestore puts the name in front of a vector. Only at the end does the provider know it for
  # Firestore's own; elsewhere it would make the index anew each time.
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
    create = "90m" # over many documents
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
    delete = "90m" # the automatic indexes come back
  }
}
