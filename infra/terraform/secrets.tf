locals {
  known_secrets = toset(flatten([for each in values(local.functions) : each.secrets]))
  secrets       = setunion(["ACCESS_SECRETS"], var.secrets)

  # Functions and the secrets that they use, with keys such as "search-kb OPENAI_API_KEY".
  secret_uses = merge([for key, each in local.functions : {
    for name in setintersection(each.secrets, local.secrets) :
    "${key} ${name}" => { function = key, secret = name }
  }]...)
}

# `carrel deploy` adds their values as versions, which Terraform and its state never contain. No
# function uses carrel-smoke-key, which is for the smoke test.
resource "google_secret_manager_secret" "carrel" {
  for_each            = setunion(local.secrets, ["carrel-smoke-key"])
  secret_id           = each.key
  deletion_protection = var.protect_data

  replication {
    auto {}
  }

  depends_on = [google_project_service.carrel]
}

resource "google_secret_manager_secret_iam_member" "function" {
  for_each  = local.secret_uses
  secret_id = google_secret_manager_secret.carrel[each.value.secret].id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.function[each.value.function].member
}
