# According to the first page below, an owner of the project may create a budget. According to the
# second, Terraform can create it only for a costs manager of the billing account.
# https://cloud.google.com/billing/docs/how-to/budget-api-access-control
# https://github.com/hashicorp/terraform-provider-google/issues/25478
resource "google_billing_budget" "monthly" {
  count           = var.billing_account == null ? 0 : 1
  billing_account = var.billing_account
  display_name    = "Carrel in ${var.project}"

  budget_filter {
    projects = ["projects/${data.google_project.carrel.number}"]
  }

  amount {
    specified_amount {
      units = tostring(var.monthly_budget)
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1]

    content {
      threshold_percent = threshold_rules.value
    }
  }

  threshold_rules {
    threshold_percent = 1
    spend_basis       = "FORECASTED_SPEND"
  }

  dynamic "all_updates_rule" {
    for_each = google_monitoring_notification_channel.email

    content {
      monitoring_notification_channels = [all_updates_rule.value.id]
    }
  }

  depends_on = [google_project_service.carrel]
}

# The permissions on a project to read and change its budget.
# https://cloud.google.com/billing/docs/how-to/budget-api-access-control
resource "google_project_iam_custom_role" "budget" {
  count       = var.billing_account == null ? 0 : 1
  role_id     = "carrelBudget"
  title       = "Carrel: manages the budget"
  permissions = ["billing.resourcebudgets.read", "billing.resourcebudgets.write"]
  depends_on  = [google_project_service.carrel]
}

resource "google_project_iam_member" "budget" {
  count   = var.billing_account == null ? 0 : 1
  project = var.project
  role    = google_project_iam_custom_role.budget[0].name
  member  = google_service_account.deployer.member
}
