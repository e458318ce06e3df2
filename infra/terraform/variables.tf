variable "manifest" {
  description = "The path of dist/manifest.json, which `carrel stage` writes: what there is to deploy."
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
  description = "Where functions, images, texts and schedules are. New projects may be kept to some regions for builds: https://cloud.google.com/build/docs/locations"
  type        = string
  default     = null

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "Set region in deployment.tfvars.json to a region of Cloud Run, such as europe-west1."
  }
}

variable "firestore_location" {
  description = "Where the databases are, for good: a region, eur3 or nam5."
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
    error_message = "Name ${join(", ", setintersection(keys(var.settings), local.known_secrets))} in secrets, and leave its value to Secret Manager: what stands in settings, Terraform's state holds."
  }

  validation {
    condition     = length(setsubtract(keys(var.settings), setunion(local.known_settings, local.known_secrets, local.derived_settings))) == 0
    error_message = "No function reads ${join(", ", setsubtract(keys(var.settings), setunion(local.known_settings, local.known_secrets, local.derived_settings)))}: shared/core/settings.py says what there is."
  }

  validation {
    condition     = length(setintersection(keys(var.settings), local.derived_settings)) == 0
    error_message = "Leave ${join(", ", setintersection(keys(var.settings), local.derived_settings))} out of settings: project, public_url and embedding_dimension decide them, and the databases' names are fixed."
  }

  validation {
    condition     = contains(["vertex", "openai"], lookup(var.settings, "EMBEDDING_PROVIDER", ""))
    error_message = "Set EMBEDDING_PROVIDER in settings to vertex, or to openai for any endpoint that speaks as OpenAI does, as in \"settings\": {\"EMBEDDING_PROVIDER\": \"vertex\"}: no bundle embeds otherwise."
  }
}

variable "secrets" {
  description = "Names of the secrets in use, beside ACCESS_SECRETS."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.secrets, local.known_secrets)) == 0
    error_message = "No function takes ${join(", ", setsubtract(var.secrets, local.known_secrets))} as a secret. There are: ${join(", ", local.known_secrets)}."
  }
}

variable "billing_account" {
  description = "The id of the billing account, for a budget and its alerts; null for none. If making it is refused, become a costs manager of the account (roles/billing.costsManager)."
  type        = string
  default     = null

  validation {
    condition     = var.billing_account == null || can(regex("^[0-9A-F]{6}(-[0-9A-F]{6}){2}$", var.billing_account))
    error_message = "Set billing_account to an id such as 012345-6789AB-CDEF01 (gcloud billing accounts list shows them), or to null."
  }
}

variable "monthly_budget" {
  description = "What a month may cost before alerts go out, in the currency of the billing account."
  type        = number
  default     = 10

  validation {
    condition     = var.monthly_budget >= 1 && floor(var.monthly_budget) == var.monthly_budget
    error_message = "Set monthly_budget to a whole number, 1 or more."
  }
}

variable "alert_email" {
  description = "Who is told of trouble; null for nobody."
  type        = string
  default     = null
}

variable "embedding_dimension" {
  description = "The length of the vectors, in the indexes and of the embedding model."
  type        = number
  default     = 768

  validation {
    condition     = var.embedding_dimension >= 1 && var.embedding_dimension <= 2048
    error_message = "Set embedding_dimension to at most 2048, which is what Firestore takes."
  }
}

variable "public_url" {
  description = "Where clients reach the gateway, if not at the address that Cloud Run gives it."
  type        = string
  default     = null

  validation {
    condition     = var.public_url == null || can(regex("^https://[a-z0-9.-]+$", var.public_url))
    error_message = "Set public_url to an address such as https://carrel.example.com, without a path, or to null."
  }
}

variable "grant_all_users" {
  description = "Whether Terraform lets everybody reach the gateway; false where an organization forbids allUsers."
  type        = bool
  default     = true
}

variable "min_instances" {
  description = "How many instances of a function are kept ready, which costs all day long, by its key in the manifest, where what it declares is not right: {\"gateway\" = 1}."
  type        = map(number)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.min_instances), keys(local.functions))) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.min_instances), keys(local.functions)))} for min_instances. There are: ${join(", ", keys(local.functions))}."
  }

  validation {
    condition     = alltrue([for key, each in var.min_instances : each >= 0 && floor(each) == each && each <= lookup(local.most_instances, key, each)])
    error_message = "Set min_instances to whole numbers, 0 or more, and no more than the function's max_instances."
  }
}

variable "max_instances" {
  description = "How many instances of a function there are at most, by its key in the manifest, where what it declares is not right: {\"search-kb\" = 20}."
  type        = map(number)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.max_instances), keys(local.functions))) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.max_instances), keys(local.functions)))} for max_instances. There are: ${join(", ", keys(local.functions))}."
  }

  validation {
    condition     = alltrue([for each in values(var.max_instances) : each >= 1 && floor(each) == each])
    error_message = "Set max_instances to whole numbers, 1 or more."
  }
}

variable "protect_data" {
  description = "Whether databases, texts and secrets survive `terraform destroy`."
  type        = bool
  default     = true
}
