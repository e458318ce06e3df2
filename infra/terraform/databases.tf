# Knowledge and users' own data. It is made first: what Firestore gives for free goes to the database
# of a project that was made first. https://firebase.google.com/docs/firestore/pricing
resource "google_firestore_database" "knowledge" {
  name        = "(default)"
  location_id = var.firestore_location
  type        = "FIRESTORE_NATIVE"

  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = local.delete_protection
  deletion_policy                   = "DELETE" # which Firestore refuses while it is protected

  depends_on = [google_project_service.carrel]
}

# Credentials, accounts, calls and limits, which the gateway alone may open.
resource "google_firestore_database" "access" {
  name        = "access"
  location_id = var.firestore_location
  type        = "FIRESTORE_NATIVE"

  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = local.delete_protection
  deletion_policy                   = "DELETE"

  depends_on = [google_firestore_database.knowledge]
}

locals {
  delete_protection = var.protect_data ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"

  # By the names that the manifest and the index files use.
  database_names = {
    "(default)" = google_firestore_database.knowledge.name
    "access"    = google_firestore_database.access.name
  }
}
