# texts/ contains texts to ingest, bulk/ the files of bulk embedding with Vertex AI.
resource "google_storage_bucket" "texts" {
  name                        = "${var.project}-carrel-texts"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = !var.protect_data

  # Jobs delete their files when they are done. This deletes leftovers.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = 30
      matches_prefix = ["bulk/"]
    }
  }

  depends_on = [google_project_service.carrel]
}

# Without cleanup policies, the images of all deployments would remain and cost money.
resource "google_artifact_registry_repository" "functions" {
  repository_id          = "carrel"
  description            = "Images of Carrel's functions."
  location               = var.region
  format                 = "DOCKER"
  cleanup_policy_dry_run = false

  cleanup_policies {
    id     = "delete-older"
    action = "DELETE"
    condition {
      tag_state  = "ANY"
      older_than = "86400s"
    }
  }

  cleanup_policies {
    id     = "keep-latest"
    action = "KEEP"
    most_recent_versions {
      keep_count = 3
    }
  }

  depends_on = [google_project_service.carrel]
}
