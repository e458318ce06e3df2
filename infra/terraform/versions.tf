terraform {
  required_version = ">= 1.9" # for validations that refer to other variables

  required_providers {
    google = {
      source = "hashicorp/google"
      # 7 and 8 change none of the arguments used here, according to their upgrade guides.
      version = ">= 6.50, < 9"
    }
  }

  # `terraform init` names the bucket: <project>-carrel, which `carrel deploy` creates.
  backend "gcs" {
    prefix = "terraform"
  }
}

# The budget API requires a quota project.
# https://registry.terraform.io/providers/hashicorp/google/6.50.0/docs/resources/billing_budget
provider "google" {
  project               = var.project
  region                = var.region
  billing_project       = var.project
  user_project_override = true
  default_labels        = { app = "carrel" }
}

data "google_project" "carrel" {
  project_id = var.project
  depends_on = [google_project_service.carrel]
}
