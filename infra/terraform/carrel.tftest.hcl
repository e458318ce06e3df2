# What Terraform would create, without a cloud: the mocked provider fills in what Google assigns.
# `tests/e2e/test_terraform.py` runs it with the manifest of all functions. To run it by hand:
# `carrel stage`, then `terraform test -var manifest=$PWD/dist/manifest.json`.

mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}

variables {
  project            = "my-carrel-123"
  region             = "europe-west1"
  firestore_location = "europe-west1"
  settings           = { EMBEDDING_PROVIDER = "openai", TOOL_TIMEOUTS = "{\"get_chunk\": 95.5}" }
  secrets            = ["OPENAI_API_KEY", "READWISE_TOKEN"]
  billing_account    = "012345-6789AB-CDEF01"
  alert_email        = "ada@example.com"
}

run "all_functions" {
  # Accounts and roles

  assert {
    condition = jsonencode({ for key, each in google_project_iam_member.database : key => each.role }) == jsonencode(merge(
      { for key, each in local.functions : "${key} (default)" => each.effect == "read" ? "roles/datastore.viewer" : "roles/datastore.user" if each.kind != "gateway" },
      { "gateway access" = "roles/datastore.user" },
    ))
    error_message = "A tool's effect must decide its role on the first database; only the gateway may open the database of credentials, and no other."
  }

  assert {
    condition = alltrue([for key, each in google_project_iam_member.database :
      each.condition[0].expression == "resource.type == \"firestore.googleapis.com/Database\" && resource.name == \"projects/my-carrel-123/databases/${split(" ", key)[1]}\""
    ])
    error_message = "Each role on a database must be for that one alone."
  }

  assert {
    condition = alltrue([
      for key, each in merge(google_project_iam_member.database, google_project_iam_member.function, google_storage_bucket_iam_member.function, google_secret_manager_secret_iam_member.function) :
      each.member == google_service_account.function[split(" ", key)[0]].member
    ])
    error_message = "A role must belong to the function that declares it."
  }

  assert {
    condition = jsonencode({ for key, each in google_cloud_run_v2_service_iam_member.invoker : each.name => [each.role, each.member] }) == jsonencode({
      for key, each in local.functions : "carrel-${key}" => ["roles/run.invoker", {
        gateway = "allUsers"
        tool    = google_service_account.function["gateway"].member
        job     = google_service_account.scheduler.member
      }[each.kind]]
    })
    error_message = "Everyone may invoke the gateway, only the gateway tools, and only the schedules jobs."
  }

  assert {
    condition = toset([for key, each in google_project_iam_member.function : key]) == toset(flatten([
      for key, each in local.functions : [for role in each.project_roles : "${key} ${role}"]
    ]))
    error_message = "Functions must have the project roles that they declare."
  }

  assert {
    condition = toset([for key, each in google_storage_bucket_iam_member.function : "${split(" ", key)[0]} ${each.bucket} ${each.role}"]) == toset(flatten([
      for key, each in local.functions : [for role in values(each.buckets) : "${key} my-carrel-123-carrel-texts ${role}"]
    ]))
    error_message = "Only functions that declare a bucket may have access to it."
  }

  assert {
    condition     = google_project_iam_member.deployer_gives.condition[0].expression == "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly(['roles/aiplatform.user', 'roles/cloudscheduler.jobRunner', 'roles/datastore.user', 'roles/datastore.viewer'])"
    error_message = "The deployer may grant only roles of functions."
  }

  assert {
    condition = length(setintersection(["roles/owner", "roles/editor", "roles/viewer", "roles/datastore.owner"], concat(
      [for each in values(merge(google_project_iam_member.database, google_project_iam_member.function, google_project_iam_member.build, google_project_iam_member.deployer)) : each.role],
      [google_project_iam_member.deployer_gives.role],
    ))) == 0
    error_message = "No account may be an owner or editor."
  }

  assert {
    condition     = toset([for each in google_project_iam_member.build : each.role]) == toset(["roles/logging.logWriter", "roles/storage.objectViewer"])
    error_message = "The account of builds may only build."
  }

  # Functions

  assert {
    condition = jsonencode({ for key, each in google_cloudfunctions2_function.carrel : key => [
      each.name, each.build_config[0].runtime, each.build_config[0].entry_point, each.build_config[0].service_account,
      each.build_config[0].source[0].storage_source[0].bucket, each.build_config[0].source[0].storage_source[0].object,
      each.build_config[0].environment_variables["CARREL_BUNDLE"],
      each.service_config[0].service_account_email, each.service_config[0].available_memory, each.service_config[0].available_cpu,
      each.service_config[0].max_instance_request_concurrency, each.service_config[0].min_instance_count,
      each.service_config[0].max_instance_count, each.service_config[0].ingress_settings,
      ] }) == jsonencode({ for key, each in local.functions : key => [
      "carrel-${key}", each.runtime, each.entry_point, google_service_account.build.id,
      "my-carrel-123-carrel", each.bundle, each.bundle,
      google_service_account.function[key].email, "${each.memory_mib}Mi", tostring(each.cpu),
      each.concurrency, each.min_instances, each.max_instances, each.ingress,
    ] })
    error_message = "Each function must be deployed as declared, with an account of its own."
  }

  assert {
    condition = alltrue([for each in google_cloudfunctions2_function.carrel :
      each.service_config[0].max_instance_request_concurrency == 1 || tonumber(each.service_config[0].available_cpu) >= 1
    ])
    error_message = "Google refuses concurrency with less than a CPU."
  }

  assert {
    condition = alltrue([for key, each in google_service_account.function :
      each.account_id == "carrel-${key}" && length(each.account_id) >= 6 && length(each.account_id) <= 30
      && length("${each.account_id}-123456789012") <= 63
    ])
    error_message = "A function's name must fit into an account's id and a host name."
  }

  assert {
    condition     = output.gateway_url == "https://carrel-gateway-123456789012.europe-west1.run.app"
    error_message = "The gateway's URL must be the one that `carrel smoke` computes."
  }

  assert {
    condition = jsonencode(jsondecode(google_cloudfunctions2_function.carrel["gateway"].service_config[0].environment_variables["TOOL_URLS"])) == jsonencode({
      for key, each in local.functions : each.name => "https://carrel-${key}-123456789012.europe-west1.run.app" if each.kind == "tool"
    })
    error_message = "The gateway must know the URL of each tool."
  }

  assert {
    condition = alltrue([for key, each in google_cloudfunctions2_function.carrel :
      jsonencode(each.service_config[0].environment_variables) == jsonencode(merge({ GOOGLE_CLOUD_PROJECT = "my-carrel-123" }, {
        for name, value in {
          EMBEDDING_PROVIDER  = "openai"
          EMBEDDING_DIMENSION = "768"
          TOOL_TIMEOUTS       = "{\"get_chunk\": 95.5}"
          INGEST_BUCKET       = "gs://my-carrel-123-carrel-texts/texts"
          BULK_BUCKET         = "gs://my-carrel-123-carrel-texts/bulk"
          INGEST_START_URL    = "https://cloudscheduler.googleapis.com/v1/projects/my-carrel-123/locations/europe-west1/jobs/carrel-ingest:run"
          PUBLIC_URL          = "https://carrel-gateway-123456789012.europe-west1.run.app"
        } : name => value if contains(local.functions[key].settings, name)
      })) if key != "gateway"
    ])
    error_message = "A function must get the settings that it declares, and no others."
  }

  assert {
    condition     = google_cloudfunctions2_function.carrel["get-chunk"].service_config[0].timeout_seconds == 101
    error_message = "A configured time limit is rounded up, and the function gets 5 seconds more to answer."
  }

  assert {
    condition = alltrue([for key, each in google_cloudfunctions2_function.carrel :
      each.service_config[0].timeout_seconds == local.functions[key].timeout_seconds if !contains(["gateway", "get-chunk"], key)
    ])
    error_message = "Other functions must keep the timeout that they declare."
  }

  # Secrets

  assert {
    condition = alltrue([for uses in [
      flatten([for key, each in google_cloudfunctions2_function.carrel : [for secret in each.service_config[0].secret_environment_variables : "${key} ${secret.secret}"]]),
      [for key, each in google_secret_manager_secret_iam_member.function : key],
      ] : toset(uses) == toset(flatten([for key, each in local.functions : [
        for name in each.secrets : "${key} ${name}" if contains(["ACCESS_SECRETS", "OPENAI_API_KEY", "READWISE_TOKEN"], name)
    ]]))])
    error_message = "A function must get, and may read, the secrets in use that it declares, and no others."
  }

  assert {
    condition = alltrue([for key, each in google_secret_manager_secret_iam_member.function :
      each.role == "roles/secretmanager.secretAccessor" && each.secret_id == google_secret_manager_secret.carrel[split(" ", key)[1]].id
    ])
    error_message = "A function may read its own secrets, and no more."
  }

  assert {
    condition     = toset([for each in google_secret_manager_secret.carrel : each.secret_id if each.deletion_protection]) == toset(["ACCESS_SECRETS", "OPENAI_API_KEY", "READWISE_TOKEN", "carrel-smoke-key"])
    error_message = "The secrets must be those in use and the smoke test's key, all protected."
  }

  # Schedules

  assert {
    condition = jsonencode({ for key, each in google_cloud_scheduler_job.carrel : key => [
      each.name, each.schedule, each.time_zone, each.attempt_deadline,
      each.http_target[0].uri, each.http_target[0].http_method,
      each.http_target[0].oidc_token[0].audience, each.http_target[0].oidc_token[0].service_account_email,
      ] }) == jsonencode({ for key, each in local.functions : key => [
      "carrel-${key}", each.schedule, "Etc/UTC", "${google_cloudfunctions2_function.carrel[key].service_config[0].timeout_seconds}s",
      "https://carrel-${key}-123456789012.europe-west1.run.app/", "POST",
      "https://carrel-${key}-123456789012.europe-west1.run.app", google_service_account.scheduler.email,
    ] if each.schedule != "" })
    error_message = "Each job with a schedule must be called by it, which waits as long as the job may run."
  }

  assert {
    condition     = alltrue([for key, each in google_cloud_scheduler_job.carrel : local.functions[key].timeout_seconds >= 15 && local.functions[key].timeout_seconds <= 1800])
    error_message = "Cloud Scheduler waits 15 to 1800 seconds."
  }

  # Indexes and databases

  assert {
    condition = jsonencode(sort([for each in google_firestore_index.carrel : jsonencode([
      each.database, each.collection, each.query_scope,
      [for field in each.fields : [field.field_path, coalesce(field.order, field.array_config, "${try(field.vector_config[0].dimension, "")} wide")]],
      ])])) == jsonencode(sort(flatten([for database, path in { "(default)" = "../../firestore.indexes.json", "access" = "../build/access.indexes.json" } : [
      for index in jsondecode(file(path)).indexes : jsonencode([
        database, index.collectionGroup, index.queryScope,
        flatten([for field in index.fields : can(field.vectorConfig)
          ? [{ of = ["__name__", "ASCENDING"] }, { of = [field.fieldPath, "768 wide"] }]
          : [{ of = [field.fieldPath, try(field.order, field.arrayConfig)] }]
        ])[*].of,
      ])
    ]])))
    error_message = "The indexes must be those of the files; a vector comes last, after the name."
  }

  assert {
    condition = jsonencode(sort([for each in google_firestore_field.carrel : jsonencode([
      each.database, each.collection, each.field, length(each.ttl_config) > 0,
      sort([for index in each.index_config[0].indexes : "${index.query_scope} ${coalesce(index.order, index.array_config)}"]),
      ])])) == jsonencode(sort(flatten([for database, path in { "(default)" = "../../firestore.indexes.json", "access" = "../build/access.indexes.json" } : [
      for field in jsondecode(file(path)).fieldOverrides : jsonencode([
        database, field.collectionGroup, field.fieldPath, try(field.ttl, false),
        sort([for index in field.indexes : "${index.queryScope} ${try(index.order, index.arrayConfig)}"]),
      ])
    ]])))
    error_message = "The exemptions and expiry rules must be those of the files."
  }

  assert {
    condition     = can(google_firestore_index.carrel["(default) chunks: facets CONTAINS, embedding VECTOR"]) && can(google_firestore_index.carrel["(default) documents of all: status ASCENDING, next_at ASCENDING"])
    error_message = "Indexes must have readable addresses."
  }

  assert {
    condition = jsonencode([for each in [google_firestore_database.knowledge, google_firestore_database.access] : [each.name, each.type, each.delete_protection_state, each.point_in_time_recovery_enablement]]) == jsonencode([
      for name in ["(default)", "access"] : [name, "FIRESTORE_NATIVE", "DELETE_PROTECTION_ENABLED", "POINT_IN_TIME_RECOVERY_ENABLED"]
    ])
    error_message = "Databases must be protected, and recoverable."
  }

  # Metrics, alerts and costs

  assert {
    condition = jsonencode({ for key, each in google_logging_metric.carrel : each.name => [
      each.filter, each.value_extractor, coalesce(each.label_extractors, {}), each.metric_descriptor[0].value_type,
      sort([for label in each.metric_descriptor[0].labels : label.key]), try(each.bucket_options[0].exponential_buckets[0].num_finite_buckets, null),
      ] }) == jsonencode({ for metric in jsondecode(file("../build/log_metrics.json")) : metric.name => [
      metric.filter, try(metric.valueExtractor, null), metric.labelExtractors, metric.metricDescriptor.valueType,
      sort([for label in metric.metricDescriptor.labels : label.key]), try(metric.bucketOptions.exponentialBuckets.numFiniteBuckets, null),
    ] })
    error_message = "The metrics must be those of the file."
  }

  assert {
    condition = length(setsubtract(
      flatten(regexall("logging_googleapis_com:user_(\\w+?)(?:_bucket|_sum)?\\{", join(" ", concat(
        [google_monitoring_dashboard.carrel.dashboard_json],
        [for each in google_monitoring_alert_policy.carrel : each.conditions[0].condition_prometheus_query_language[0].query],
      )))),
      keys(google_logging_metric.carrel),
    )) == 0
    error_message = "Alerts and charts may query only metrics that exist."
  }

  assert {
    condition     = length(google_monitoring_alert_policy.carrel) == 5 && alltrue([for each in google_monitoring_alert_policy.carrel : each.notification_channels == tolist([google_monitoring_notification_channel.email[0].id])])
    error_message = "Every alert must go to the configured address."
  }

  assert {
    condition = jsonencode(sort(split("|", regex("job=~\"([^\"]*)\"", google_monitoring_alert_policy.carrel["jobs_do_not_finish"].conditions[0].condition_prometheus_query_language[0].query)[0]))) == jsonencode(sort([
      for each in values(local.functions) : each.name if length(regexall(" \\* \\* \\*$", each.schedule)) > 0
    ]))
    error_message = "An alert must cover all jobs that run at least daily."
  }

  assert {
    condition     = startswith(google_monitoring_alert_policy.carrel["jobs_do_not_finish"].conditions[0].condition_prometheus_query_language[0].query, "(count(sum by (job) (increase(logging_googleapis_com:user_job_runs_total{") && endswith(google_monitoring_alert_policy.carrel["jobs_do_not_finish"].conditions[0].condition_prometheus_query_language[0].query, "[25h])) > 0) or vector(0)) < ${length([for each in values(local.functions) : each if endswith(each.schedule, " * * *")])}")
    error_message = "Each of these jobs must finish within a day and an hour, because runs take time."
  }

  assert {
    condition     = google_logging_project_exclusion.queries.filter == "log_id(\"run.googleapis.com/requests\") AND resource.labels.service_name=\"carrel-gateway\" AND httpRequest.requestUrl:\"?\""
    error_message = "What people search for in the console must not be in Google's logs."
  }

  assert {
    condition = jsonencode([google_billing_budget.monthly[0].amount[0].specified_amount[0].units, [for each in google_billing_budget.monthly[0].threshold_rules : [each.threshold_percent, each.spend_basis]]]) == jsonencode(
      ["10", [[0.5, null], [0.9, null], [1, null], [1, "FORECASTED_SPEND"]]]
    ) && google_billing_budget.monthly[0].all_updates_rule[0].monitoring_notification_channels == tolist([google_monitoring_notification_channel.email[0].id])
    error_message = "A budget must send mail before it is spent."
  }
}

run "other_options" {
  variables {
    settings = {
      EMBEDDING_PROVIDER = "vertex", INGEST_BUCKET = "gs://my-library/notes", TELEMETRY = "gcp"
      TOOL_TIMEOUTS      = "{\"get_chunk\": 1000}"
    }
    embedding_dimension = 1536
    public_url          = "https://carrel.example.com"
    grant_all_users     = false
    min_instances       = { gateway = 1 }
    max_instances       = { gateway = 3, search-kb = 20 }
    protect_data        = false
  }

  assert {
    condition     = output.mcp_url == "https://carrel.example.com/mcp" && google_cloudfunctions2_function.carrel["gateway"].service_config[0].environment_variables["PUBLIC_URL"] == "https://carrel.example.com"
    error_message = "A configured URL must be the gateway's."
  }

  assert {
    condition     = output.texts == "gs://my-library/notes" && google_storage_bucket_iam_member.function["ingest INGEST_BUCKET"].bucket == "my-library"
    error_message = "A configured bucket must replace the created one."
  }

  assert {
    condition     = !can(google_cloud_run_v2_service_iam_member.invoker["gateway"])
    error_message = "Without grant_all_users, nobody may be granted to invoke the gateway."
  }

  assert {
    condition = jsonencode([for key in ["gateway", "search-kb"] : [
      google_cloudfunctions2_function.carrel[key].service_config[0].min_instance_count,
      google_cloudfunctions2_function.carrel[key].service_config[0].max_instance_count,
    ]]) == jsonencode([[1, 3], [0, 20]])
    error_message = "Instances must be as configured, else as declared."
  }

  assert {
    condition = toset(flatten([for each in google_firestore_index.carrel : [for field in each.fields : field.vector_config[*].dimension]])) == toset([1536]) && alltrue([
      for key, each in google_cloudfunctions2_function.carrel : each.service_config[0].environment_variables["EMBEDDING_DIMENSION"] == "1536" if contains(local.functions[key].settings, "EMBEDDING_DIMENSION")
    ])
    error_message = "Indexes and functions must have the same dimension."
  }

  assert {
    condition = alltrue([for key in keys(local.functions) : can(google_project_iam_member.function["${key} roles/telemetry.tracesWriter"])]) && alltrue([
      for api in ["cloudtrace", "telemetry"] : can(google_project_service.carrel[api])
    ])
    error_message = "Spans for Google need a role and two APIs."
  }

  assert {
    condition = toset([google_firestore_database.knowledge.delete_protection_state, google_firestore_database.access.delete_protection_state]) == toset(["DELETE_PROTECTION_DISABLED"]) && (
      google_storage_bucket.texts.force_destroy && !anytrue([for each in google_secret_manager_secret.carrel : each.deletion_protection])
    )
    error_message = "Data that is to be deleted must not be protected."
  }

  assert {
    condition     = google_cloudfunctions2_function.carrel["gateway"].service_config[0].timeout_seconds == 1005
    error_message = "The gateway must wait as long as any tool."
  }
}

run "example" {
  command = plan

  variables {
    project            = jsondecode(file("example.tfvars.json")).project
    region             = jsondecode(file("example.tfvars.json")).region
    firestore_location = jsondecode(file("example.tfvars.json")).firestore_location
    settings           = jsondecode(file("example.tfvars.json")).settings
    secrets            = jsondecode(file("example.tfvars.json")).secrets
    billing_account    = jsondecode(file("example.tfvars.json")).billing_account
    alert_email        = jsondecode(file("example.tfvars.json")).alert_email
  }

  assert {
    condition     = jsonencode(output.secrets) == jsonencode(["ACCESS_SECRETS"])
    error_message = "The example must need no secret from elsewhere."
  }

  assert {
    condition     = length(google_billing_budget.monthly) + length(google_monitoring_alert_policy.carrel) == 0
    error_message = "Without an account and an address, there must be no budget and no alerts."
  }
}
