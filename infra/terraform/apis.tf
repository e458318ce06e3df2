# To enable these, Terraform itself needs three of them: docs/deploy.md has the command.
locals {
  apis = toset(concat([
    "aiplatform", "artifactregistry", "cloudbuild", "cloudfunctions", "cloudresourcemanager",
    "cloudscheduler", "firestore", "iam", "logging", "monitoring", "run", "secretmanager",
    "serviceusage", "storage",
    ],
    var.billing_account == null ? [] : ["billingbudgets"],
    local.exports_to_google ? ["cloudtrace", "telemetry"] : [],
  ))

  # Functions export spans to Cloud Trace, through the Telemetry API.
  exports_to_google = lookup(var.settings, "TELEMETRY", "") == "gcp"
}

resource "google_project_service" "carrel" {
  for_each           = local.apis
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false # other programs may use them
}
