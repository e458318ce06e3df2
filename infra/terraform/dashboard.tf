locals {
  of_database = "monitored_resource=\"firestore.googleapis.com/Database\""

  # Of each chart: its title and what it shows, in PromQL.
  charts = [
    ["Calls of tools", "sum by (tool) (rate(${local.promql["tool_calls_total"]}{${local.of_run}}[5m]))"],
    ["Calls that fail, by code", "sum by (code) (rate(${local.promql["tool_calls_total"]}{${local.of_run},outcome=\"error\"}[5m]))"],
    ["Seconds that 95 % of calls stay below", "histogram_quantile(0.95, sum by (tool, le) (rate(${local.promql["tool_latency_seconds"]}_bucket{${local.of_run}}[5m])))"],
    ["Seconds waited for the embedding model, 95 %", "histogram_quantile(0.95, sum by (le) (rate(${local.promql["embedding_latency_seconds"]}_bucket{${local.of_run}}[5m])))"],
    ["Requests to the gateway, by status", "sum by (response_code_class) (rate(run_googleapis_com:request_count{${local.of_run},service_name=\"carrel-gateway\"}[5m]))"],
    ["Instances, by function", "sum by (service_name) (run_googleapis_com:container_instance_count{${local.of_run},service_name=~\"carrel-.*\"})"],
    ["Runs of jobs, by how they end", "sum by (job, outcome) (increase(${local.promql["job_runs_total"]}{${local.of_run}}[1h]))"],
    ["Items that jobs put off or gave up", "sum by (job) (increase(${local.promql["job_failures"]}_sum{${local.of_run}}[1h]))"],
    ["Documents read", "sum(rate(firestore_googleapis_com:document_read_ops_count{${local.of_database}}[5m]))"],
    ["Documents written", "sum(rate(firestore_googleapis_com:document_write_ops_count{${local.of_database}}[5m]))"],
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
