locals {
  firestore_resource = "monitored_resource=\"firestore.googleapis.com/Database\""

  # The title and the PromQL query of each chart.
  charts = [
    ["Tool calls", "sum by (tool) (rate(${local.promql["tool_calls_total"]}{${local.cloud_run_resource}}[5m]))"],
    ["Failed calls by error code", "sum by (code) (rate(${local.promql["tool_calls_total"]}{${local.cloud_run_resource},outcome=\"error\"}[5m]))"],
    ["Latency of tool calls, 95th percentile (s)", "histogram_quantile(0.95, sum by (tool, le) (rate(${local.promql["tool_latency_seconds"]}_bucket{${local.cloud_run_resource}}[5m])))"],
    ["Latency of embedding, 95th percentile (s)", "histogram_quantile(0.95, sum by (le) (rate(${local.promql["embedding_latency_seconds"]}_bucket{${local.cloud_run_resource}}[5m])))"],
    ["Requests to the gateway by status", "sum by (response_code_class) (rate(run_googleapis_com:request_count{${local.cloud_run_resource},service_name=\"carrel-gateway\"}[5m]))"],
    ["Instances by function", "sum by (service_name) (run_googleapis_com:container_instance_count{${local.cloud_run_resource},service_name=~\"carrel-.*\"})"],
    ["Job runs by outcome", "sum by (job, outcome) (increase(${local.promql["job_runs_total"]}{${local.cloud_run_resource}}[1h]))"],
    ["Items that jobs deferred or gave up", "sum by (job) (increase(${local.promql["job_failures"]}_sum{${local.cloud_run_resource}}[1h]))"],
    ["Documents read", "sum(rate(firestore_googleapis_com:document_read_ops_count{${local.firestore_resource}}[5m]))"],
    ["Documents written", "sum(rate(firestore_googleapis_com:document_write_ops_count{${local.firestore_resource}}[5m]))"],
  ]
}

resource "google_monitoring_dashboard" "carrel" {
  dashboard_json = jsonencode({
    displayName = "Carrel"
    gridLayout = {
      columns = "2"
      widgets = [for chart in local.charts : {
        title = chart[0]
        xyChart = {
          dataSets = [{
            plotType        = "LINE"
            timeSeriesQuery = { prometheusQuery = chart[1] }
          }]
        }
      }]
    }
  })

  depends_on = [google_logging_metric.carrel]
}
