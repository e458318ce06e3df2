resource "google_cloud_scheduler_job" "carrel" {
  for_each         = { for key, each in local.jobs : key => each if each.schedule != "" }
  name             = "carrel-${each.key}"
  description      = "Runs the job ${each.value.name}"
  region           = var.region
  schedule         = each.value.schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "${each.value.timeout_seconds}s"

  # An outage may last only minutes, and a retried run continues where the first one stopped.
  retry_config {
    retry_count          = 2
    min_backoff_duration = "60s"
  }

  http_target {
    uri         = "${local.addresses[each.key]}/"
    http_method = "POST"

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = local.addresses[each.key]
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.invoker]
}
