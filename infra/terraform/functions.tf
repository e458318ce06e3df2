locals {
  functions = jsondecode(file(var.manifest)).functions
  tools     = { for key, each in local.functions : key => each if each.kind == "tool" }
  jobs      = { for key, each in local.functions : key => each if each.kind == "job" }

  # Cloud Run's deterministic URL is known before the function exists, so that the gateway can be
  # configured with the tools' URLs and its own. It is also a valid audience of ID tokens.
  # https://cloud.google.com/run/docs/triggering/https-request#deterministic
  # https://cloud.google.com/run/docs/configuring/custom-audiences
  addresses = { for key in keys(local.functions) :
    key => "https://carrel-${key}-${data.google_project.carrel.number}.${var.region}.run.app"
  }

  derived_settings = [
    "EMBEDDING_DIMENSION", "GOOGLE_CLOUD_PROJECT", "INGEST_START_URL", "PUBLIC_URL", "TOOL_URLS",
  ]
  known_settings = toset(flatten([for each in values(local.functions) : each.settings]))
  settings = merge(
    {
      INGEST_BUCKET = "gs://${google_storage_bucket.texts.name}/texts"
      BULK_BUCKET   = "gs://${google_storage_bucket.texts.name}/bulk"
    },
    var.settings,
    {
      EMBEDDING_DIMENSION = tostring(var.embedding_dimension)
      INGEST_START_URL    = "https://cloudscheduler.googleapis.com/v1/projects/${var.project}/locations/${var.region}/jobs/carrel-ingest:run"
      PUBLIC_URL          = coalesce(var.public_url, local.addresses["gateway"])
      TOOL_URLS           = jsonencode({ for key, each in local.tools : each.name => local.addresses[key] })
    },
  )

  # A configured time limit extends the function's timeout, plus 5 s to answer; the gateway waits as long.
  tool_seconds = merge(
    { for key, each in local.tools : key => each.timeout_seconds },
    { for key, each in local.tools : key => max(each.timeout_seconds, ceil(local.configured_seconds[each.name]) + 5)
    if can(local.configured_seconds[each.name]) },
  )
  configured_seconds = jsondecode(lookup(var.settings, "TOOL_TIMEOUTS", "{}"))
  seconds = { for key, each in local.functions : key => (
    each.kind == "gateway" ? max(each.timeout_seconds, values(local.tool_seconds)...) :
    lookup(local.tool_seconds, key, each.timeout_seconds)
  ) }

  min_instances = merge({ for key, each in local.functions : key => each.min_instances }, var.min_instances)
  max_instances = merge({ for key, each in local.functions : key => each.max_instances }, var.max_instances)
}

resource "google_cloudfunctions2_function" "carrel" {
  for_each    = local.functions
  name        = "carrel-${each.key}"
  description = "${title(each.value.kind)} ${each.value.name} of Carrel"
  location    = var.region

  build_config {
    runtime           = each.value.runtime
    entry_point       = each.value.entry_point
    docker_repository = google_artifact_registry_repository.functions.id
    service_account   = google_service_account.build.id

    # A bundle's name ends in its hash, so a function is rebuilt only if its bundle changes. The API
    # names Google's copy of the bundle, and the provider keeps the name in its state even if the
    # update failed. So this variable tells the next plan which bundle the function really runs.
    # https://github.com/GoogleCloudPlatform/magic-modules/blob/main/mmv1/templates/terraform/custom_flatten/cloudfunctions2_function_source_object.go.tmpl
    environment_variables = { CARREL_BUNDLE = each.value.bundle }

    # Without it, Terraform would request the generation of the previous bundle, from its state.
    # https://github.com/GoogleCloudPlatform/magic-modules/pull/11287
    source {
      storage_source {
        bucket     = "${var.project}-carrel"
        object     = each.value.bundle
        generation = try(each.value.generation, null)
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.function[each.key].email
    available_memory                 = "${each.value.memory_mib}Mi"
    available_cpu                    = tostring(each.value.cpu)
    max_instance_request_concurrency = each.value.concurrency
    timeout_seconds                  = local.seconds[each.key]
    min_instance_count               = local.min_instances[each.key]
    max_instance_count               = local.max_instances[each.key]
    ingress_settings                 = each.value.ingress

    # Only settings that the function reads, so that changes of others do not redeploy it.
    environment_variables = merge(
      { for name, value in local.settings : name => value if contains(each.value.settings, name) },
      { GOOGLE_CLOUD_PROJECT = var.project },
    )

    dynamic "secret_environment_variables" {
      for_each = setintersection(each.value.secrets, local.secrets)

      content {
        key        = secret_environment_variables.value
        project_id = var.project
        secret     = google_secret_manager_secret.carrel[secret_environment_variables.value].secret_id
        version    = "latest" # instances read it when they start
      }
    }
  }

  # New code may need new indexes, and reads its secrets at the start.
  depends_on = [
    google_firestore_index.carrel,
    google_firestore_field.carrel,
    google_project_iam_member.build,
    google_artifact_registry_repository_iam_member.build,
    google_project_iam_member.database,
    google_project_iam_member.function,
    google_secret_manager_secret_iam_member.function,
    google_service_account_iam_member.deployer,
  ]
}
