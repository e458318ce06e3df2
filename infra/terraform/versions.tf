terraform {
  required_version = ">= 1.9" # validations that look at more than their own variable

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 6.50"
    }
  }

  # The bucket is named at `terraform init`: <project>-carrel, which `carrel deploy` makes.
  backend "gcs" {
    prefix = "terraform"
  }
}

# The budget's API asks which project pays for its calls.
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
