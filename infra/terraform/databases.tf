# The database of the knowledge base and of users' data. It is created first, because Firestore's free
# quota applies to the first database of a project. https://firebase.google.com/docs/firestore/pricing
resource "google_firestore_database" "knowledge" {
  name        = "(default)"
  location_id = var.firestore_location
  type        = "FIRESTORE_NATIVE"

  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = local.delete_protection
  deletion_policy                   = "DELETE" # Firestore refuses this while the database is protected

  depends_on = [google_project_service.carrel]
}

# The database of credentials, accounts, calls and limits. Only the gateway has access.
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

  # Database names by the keys that the manifest and the index files use.
  database_names = {
    "(default)" = google_firestore_database.knowledge.name
    "access"    = google_firestore_database.access.name
  }
}
