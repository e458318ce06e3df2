# The account of Cloud Build, which deploys new releases. It can update all resources, and add and
# remove functions. It cannot create databases, or change its own roles and those of builds: a person
# does that with `carrel deploy`.
#
# It can act as each of Carrel's accounts. So a person who can start its builds has full control of
# the deployment.
resource "google_service_account" "deployer" {
  account_id   = "carrel-deployer"
  display_name = "Carrel: deploys"
  depends_on   = [google_project_service.carrel]
}

resource "google_project_iam_member" "deployer" {
  for_each = toset([
    "roles/cloudfunctions.developer",
    "roles/cloudscheduler.admin",
    "roles/datastore.indexAdmin",
    "roles/iam.roleViewer",
    "roles/iam.securityReviewer",    # to read IAM policies
    "roles/iam.serviceAccountAdmin", # an account for each new function
    "roles/logging.configWriter",
    "roles/logging.logWriter",
    "roles/monitoring.editor",
    "roles/run.admin", # to set who may invoke a function
    "roles/serviceusage.serviceUsageAdmin",
  ])
  project = var.project
  role    = each.key
  member  = google_service_account.deployer.member
}

# The deployer may grant and revoke only the roles that functions have.
# https://cloud.google.com/iam/docs/setting-limits-on-granting-roles
resource "google_project_iam_member" "deployer_gives" {
  project = var.project
  role    = "roles/resourcemanager.projectIamAdmin"
  member  = google_service_account.deployer.member

  condition {
    title = "Carrel: the roles of functions alone"
    expression = format("api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([%s])", join(", ", [
      for role in sort(distinct([
        for each in concat(values(local.databases), values(local.project_roles)) : each.role
      ])) : "'${role}'"
    ]))
  }
}

# The deployer must be allowed to act as the accounts of functions, builds and schedules.
resource "google_service_account_iam_member" "deployer" {
  for_each = merge(
    google_service_account.function,
    { "the scheduler" = google_service_account.scheduler, "builds" = google_service_account.build },
  )
  service_account_id = each.value.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.deployer.member
}

resource "google_artifact_registry_repository_iam_member" "deployer" {
  location   = google_artifact_registry_repository.functions.location
  repository = google_artifact_registry_repository.functions.name
  role       = "roles/artifactregistry.admin"
  member     = google_service_account.deployer.member
}

# The bucket of state, bundles and releases; and the buckets of functions, to manage their roles.
resource "google_storage_bucket_iam_member" "deployer" {
  for_each = merge(
    { for each in values(local.buckets) : each.bucket => "roles/storage.admin"... },
    { (google_storage_bucket.texts.name) = ["roles/storage.admin"] },
    { "${var.project}-carrel" = ["roles/storage.objectUser"] },
  )
  bucket = each.key
  role   = each.value[0]
  member = google_service_account.deployer.member
}

# The deployer lets new functions read their secrets, and reads the key of the smoke test.
resource "google_secret_manager_secret_iam_member" "deployer" {
  for_each  = google_secret_manager_secret.carrel
  secret_id = each.value.id
  role      = "roles/secretmanager.admin"
  member    = google_service_account.deployer.member
}
