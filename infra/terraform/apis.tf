# `carrel deploy` has switched them on by then; this is for whoever runs Terraform alone.
locals {
  apis = toset(concat([
    "aiplatform", "artifactregistry", "cloudbuild", "cloudfunctions", "cloudresourcemanager",
    "cloudscheduler", "firestore", "iam", "logging", "monitoring", "run", "secretmanager",
    "serviceusage", "storage",
  ], var.billing_account == null ? [] : ["billingbudgets"]))
}

resource "google_project_service" "carrel" {
  for_each           = local.apis
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false # others may use them too
}
