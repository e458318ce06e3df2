variable "manifest" {
  description = "The path of dist/manifest.json, which `carrel stage` writes: the functions to deploy."
  type        = string
  default     = null

  validation {
    condition     = try(fileexists(var.manifest), false)
    error_message = "Set manifest to the path of the manifest: run `carrel stage`, then -var manifest=$PWD/dist/manifest.json."
  }
}

variable "project" {
  description = "The id of the Google Cloud project."
  type        = string
  default     = null

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "Set project in deployment.tfvars.json to the id of a Google Cloud project (gcloud projects list shows them)."
  }
}

variable "region" {
  description = "The region of functions, images, texts and schedules. New projects may be restricted to some regions for builds: https://cloud.google.com/build/docs/locations"
  type        = string
  default     = null

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "Set region in deployment.tfvars.json to a region of Cloud Run, such as europe-west1."
  }
}

variable "firestore_location" {
  description = "The location of the databases: a region, eur3 or nam5. It cannot be changed later."
  type        = string
  default     = null

  validation {
    condition     = can(regex("^[a-z]+(-[a-z]+)?[0-9]+$", var.firestore_location))
    error_message = "Set firestore_location in deployment.tfvars.json to a location of Firestore, such as europe-west1 or eur3. It cannot be changed later."
  }
}

variable "settings" {
  description = "Carrel's settings, by the names of their environment variables; lists and objects as JSON."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setintersection(keys(var.settings), local.known_secrets)) == 0
    error_message = "Name ${join(", ", setintersection(keys(var.settings), local.known_secrets))} in secrets, and put its value into Secret Manager: Terraform's state contains all settings in plain text."
  }

  validation {
    condition     = length(setsubtract(keys(var.settings), setunion(local.known_settings, local.known_secrets, local.derived_settings))) == 0
    error_message = "No function reads ${join(", ", setsubtract(keys(var.settings), setunion(local.known_settings, local.known_secrets, local.derived_settings)))}: docs/configuration.md lists the settings."
  }

  validation {
    condition     = length(setintersection(keys(var.settings), local.derived_settings)) == 0
    error_message = "Leave ${join(", ", setintersection(keys(var.settings), local.derived_settings))} out of settings: they follow from project, public_url and embedding_dimension."
  }

  validation {
    condition     = contains(["vertex", "openai"], lookup(var.settings, "EMBEDDING_PROVIDER", ""))
    error_message = "Set EMBEDDING_PROVIDER in settings to vertex, or to openai for any endpoint with OpenAI's API, as in \"settings\": {\"EMBEDDING_PROVIDER\": \"vertex\"}. Bundles contain no other provider."
  }
}

variable "secrets" {
  description = "The names of the secrets in use, in addition to ACCESS_SECRETS."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.secrets, local.known_secrets)) == 0
    error_message = "No function takes ${join(", ", setsubtract(var.secrets, local.known_secrets))} as a secret. The secrets are: ${join(", ", local.known_secrets)}."
  }
}

variable "billing_account" {
  description = "The id of the billing account, for a budget with alerts; null for none. If Google refuses to create the budget, get the role of a costs manager of the account (roles/billing.costsManager)."
  type        = string
  default     = null

  validation {
    condition     = var.billing_account == null || can(regex("^[0-9A-F]{6}(-[0-9A-F]{6}){2}$", var.billing_account))
    error_message = "Set billing_account to an id such as 012345-6789AB-CDEF01 (gcloud billing accounts list shows them), or to null."
  }
}

variable "monthly_budget" {
  description = "The monthly costs that trigger an alert, in the currency of the billing account."
  type        = number
  default     = 10

  validation {
    condition     = var.monthly_budget >= 1 && floor(var.monthly_budget) == var.monthly_budget
    error_message = "Set monthly_budget to a whole number, 1 or more."
  }
}

variable "alert_email" {
  description = "The e-mail address for alerts; null for none."
  type        = string
  default     = null
}

variable "embedding_dimension" {
  description = "The dimension of vectors, for the indexes and the embedding model."
  type        = number
  default     = 768

  validation {
    condition     = var.embedding_dimension >= 1 && var.embedding_dimension <= 2048
    error_message = "Set embedding_dimension to at most 2048, Firestore's limit."
  }
}

variable "public_url" {
  description = "The gateway's URL for clients, if it is not the one that Cloud Run assigns."
  type        = string
  default     = null

  validation {
    condition     = var.public_url == null || can(regex("^https://[a-z0-9.-]+$", var.public_url))
    error_message = "Set public_url to a URL such as https://carrel.example.com, without a path, or to null."
  }
}

variable "grant_all_users" {
  description = "Whether allUsers may invoke the gateway; false if an organization forbids that."
  type        = bool
  default     = true
}

variable "min_instances" {
  description = "The minimum number of instances by function key, if it differs from the declared one. They cost money all day. For example: {\"gateway\" = 1}."
  type        = map(number)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.min_instances), keys(local.functions))) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.min_instances), keys(local.functions)))} for min_instances. The functions are: ${join(", ", keys(local.functions))}."
  }

  validation {
    condition     = alltrue([for key, each in var.min_instances : each >= 0 && floor(each) == each && each <= lookup(local.max_instances, key, each)])
    error_message = "Set min_instances to whole numbers, 0 or more, and no more than the function's max_instances."
  }
}

variable "max_instances" {
  description = "The maximum number of instances by function key, if it differs from the declared one. For example: {\"search-kb\" = 20}."
  type        = map(number)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.max_instances), keys(local.functions))) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.max_instances), keys(local.functions)))} for max_instances. The functions are: ${join(", ", keys(local.functions))}."
  }

  validation {
    condition     = alltrue([for each in values(var.max_instances) : each >= 1 && floor(each) == each])
    error_message = "Set max_instances to whole numbers, 1 or more."
  }
}

variable "protect_data" {
  description = "Whether databases, texts and secrets are protected from `terraform destroy`. `carrel destroy --delete-data` sets it to false."
  type        = bool
  default     = true
}
