locals {
  # The roles of functions on databases, the project and buckets, with keys such as "search-kb (default)"
  # and "search-kb roles/aiplatform.user".
  databases = merge([for key, each in local.functions : {
    for database, role in each.databases :
    "${key} ${database}" => { function = key, database = database, role = role }
  }]...)
  project_roles = merge([for key, each in local.functions : {
    for role in concat(each.project_roles, local.telemetry_roles) :
    "${key} ${role}" => { function = key, role = role }
  }]...)
  telemetry_roles = local.exports_to_google ? ["roles/telemetry.tracesWriter"] : []
  buckets = merge([for key, each in local.functions : {
    for setting, role in each.buckets : "${key} ${setting}" => {
      function = key, bucket = split("/", trimprefix(local.settings[setting], "gs://"))[0], role = role
    }
  }]...)
}

resource "google_service_account" "function" {
  for_each     = local.functions
  account_id   = "carrel-${each.key}"
  display_name = "Carrel: ${each.value.kind} ${each.value.name}"
  depends_on   = [google_project_service.carrel]
}

# Firestore roles are granted on the project; the condition restricts them to one database.
# https://cloud.google.com/iam/docs/conditions-resource-attributes
resource "google_project_iam_member" "database" {
  for_each = local.databases
  project  = var.project
  role     = each.value.role
  member   = google_service_account.function[each.value.function].member

  condition {
    title      = "Carrel: ${each.value.database} alone"
    expression = "resource.type == \"firestore.googleapis.com/Database\" && resource.name == \"projects/${var.project}/databases/${local.database_names[each.value.database]}\""
  }
}

resource "google_project_iam_member" "function" {
  for_each = local.project_roles
  project  = var.project
  role     = each.value.role
  member   = google_service_account.function[each.value.function].member
}

resource "google_storage_bucket_iam_member" "function" {
  for_each = local.buckets
  bucket   = each.value.bucket
  role     = each.value.role
  member   = google_service_account.function[each.value.function].member
}

# Everyone may invoke the gateway, which authenticates callers. Only the gateway may invoke tools, and
# only the schedules may invoke jobs.
resource "google_cloud_run_v2_service_iam_member" "invoker" {
  for_each = { for key, each in local.functions : key => each if each.kind != "gateway" || var.grant_all_users }
  name     = google_cloudfunctions2_function.carrel[each.key].name
  location = var.region
  role     = "roles/run.invoker"
  member = {
    gateway = "allUsers"
    tool    = google_service_account.function["gateway"].member
    job     = google_service_account.scheduler.member
  }[each.value.kind]
}

resource "google_service_account" "scheduler" {
  account_id   = "carrel-scheduler"
  display_name = "Carrel: starts scheduled jobs"
  depends_on   = [google_project_service.carrel]
}

# Otherwise builds use the project's default account, which has too many rights or, in newer
# projects, none. https://cloud.google.com/functions/docs/securing/build-custom-sa
resource "google_service_account" "build" {
  account_id   = "carrel-build"
  display_name = "Carrel: builds functions"
  depends_on   = [google_project_service.carrel]
}

resource "google_project_iam_member" "build" {
  for_each = toset(["roles/logging.logWriter", "roles/storage.objectViewer"])
  project  = var.project
  role     = each.key
  member   = google_service_account.build.member
}

resource "google_artifact_registry_repository_iam_member" "build" {
  location   = google_artifact_registry_repository.functions.location
  repository = google_artifact_registry_repository.functions.name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.build.member
}
