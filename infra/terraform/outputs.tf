output "gateway_url" {
  description = "The URL of the gateway."
  value       = local.settings.PUBLIC_URL
}

output "mcp_url" {
  description = "The URL for MCP clients."
  value       = "${local.settings.PUBLIC_URL}/mcp"
}

output "texts" {
  description = "The location of texts for the job `ingest`."
  value       = local.settings.INGEST_BUCKET
}

output "secrets" {
  description = "The secrets in use. Each needs a version."
  value       = sort(local.secrets)
}

output "jobs" {
  description = "The schedules of the jobs: `gcloud scheduler jobs run NAME` runs one now."
  value       = { for key, each in google_cloud_scheduler_job.carrel : local.jobs[key].name => each.name }
}

output "deployer" {
  description = "The account for Cloud Build's trigger."
  value       = google_service_account.deployer.email
}

output "dashboard" {
  description = "The URL of the dashboard."
  value       = "https://console.cloud.google.com/monitoring/dashboards/builder/${basename(google_monitoring_dashboard.carrel.id)}?project=${var.project}"
}

output "logs" {
  description = "The URL of the logs."
  value       = "https://console.cloud.google.com/logs/query;query=${urlencode("resource.labels.service_name:\"carrel-\"")}?project=${var.project}"
}
