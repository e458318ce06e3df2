# Knowledge and users' own data in the first; credentials, accounts and limits in the second, which
# the gateway alone may open.
resource "google_firestore_database" "carrel" {
  for_each    = local.index_files
  name        = each.key
  location_id = var.firestore_location
  type        = "FIRESTORE_NATIVE"

  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = var.protect_data ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = "DELETE" # which Firestore refuses while it is protected

  depends_on = [google_project_service.carrel]
}
