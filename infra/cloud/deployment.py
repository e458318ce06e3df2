"""Reads and validates `deployment.tfvars.json`, which describes a deployment to Terraform, too.

Settings are validated as the functions do, before anything is deployed, because a function with
invalid settings does not start, and only its log gives the reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from infra.build.discovery import ROOT
from shared.core.errors import InvalidInput
from shared.core.setting_groups import MIN_SECRET_LENGTH
from shared.core.settings import Settings, describe_problems, parse_value

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

FILE_NAME: Final = "deployment.tfvars.json"
FILE: Final = ROOT / FILE_NAME
EXAMPLE: Final = "infra/terraform/example.tfvars.json"
"""The example of a deployment file, as a path in the repository."""
OptionalSecret = Literal[
    "BILLING_TOKEN",
    "GENERATION_API_KEY",
    "GOOGLE_CLIENT_SECRET",
    "OPENAI_API_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "READWISE_TOKEN",
]
"""The settings that a deployment may store in Secret Manager, in addition to ACCESS_SECRETS."""
_GATEWAY_ONLY_SETTING: Final = "GOOGLE_CLIENT_ID"
"""A setting that is valid only together with its secret, which only the gateway has."""
_PROVIDERS: Final = ("vertex", "openai")
"""The embedding providers of functions. No bundle contains the model of the local provider."""
_SAMPLE_URL: Final = "https://carrel-gateway-123456789012.europe-west1.run.app"
"""A URL of the form that Cloud Run assigns, for a setting that functions require."""


class Deployment(BaseModel):
    """The description of a deployment. It contains no secrets: they are only in Secret Manager.

    `infra/terraform/variables.tf` describes the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # https://cloud.google.com/resource-manager/docs/creating-managing-projects
    project: str = Field(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")
    region: str = Field(default="europe-west1", pattern=r"^[a-z]+-[a-z]+[0-9]+$")
    firestore_location: str = Field(default="europe-west1", pattern=r"^[a-z]+(-[a-z]+)?[0-9]+$")
    settings: dict[str, str] = {}
    secrets: tuple[OptionalSecret, ...] = ()
    billing_account: str | None = None
    monthly_budget: int = Field(default=10, ge=1)
    alert_email: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
    embedding_dimension: int = Field(default=768, ge=1, le=2048)
    public_url: str | None = None
    grant_all_users: bool = True
    min_instances: dict[str, Annotated[int, Field(ge=0)]] = {}
    max_instances: dict[str, Annotated[int, Field(ge=1)]] = {}

    @property
    def exports_spans(self) -> bool:
        """Whether the functions export spans, and so need the exporter in their bundles."""
        names = ("TELEMETRY", "OTEL_EXPORTER_OTLP_ENDPOINT")
        return any(self.settings.get(name) for name in names)

    @property
    def is_public(self) -> bool:
        """Whether anyone may read without a credential."""
        return TypeAdapter(bool).validate_python(self.settings.get("PUBLIC_ACCESS") or False)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that commands with --cloud share with the functions.

        The settings override the buckets, and the other derived values override the settings, as in
        Terraform's configuration.
        """
        texts = f"gs://{self.project}-carrel-texts"
        settings = {
            name: value for name, value in self.settings.items() if name != _GATEWAY_ONLY_SETTING
        }
        return {
            "INGEST_BUCKET": f"{texts}/texts",
            "BULK_BUCKET": f"{texts}/bulk",
            **settings,
            "EMBEDDING_DIMENSION": str(self.embedding_dimension),
            "GOOGLE_CLOUD_PROJECT": self.project,
        }


def load_deployment(path: Path = FILE) -> Deployment | None:
    """Load the deployment of this checkout, or return None if there is none.

    Raises:
        ClickException: The file is not valid.
    """
    return parse_deployment(path.read_bytes(), path.name) if path.exists() else None


def parse_deployment(text: str | bytes, file_name: str) -> Deployment:
    """Parse a description of a deployment, and validate its settings.

    Raises:
        ClickException: A field is not valid, or a function would not start with these settings. The
            message says what to write instead.
    """
    try:
        deployment = Deployment.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(map(_describe_error, error.errors()))
        raise click.ClickException(f"{file_name} is not valid: {problems}.") from error
    try:
        _require_valid_settings(deployment)
    except ValueError as error:
        raise click.ClickException(f"{file_name}: {error}") from None
    return deployment


def _require_valid_settings(deployment: Deployment) -> None:
    """Validate settings as a function does, with placeholders for the secrets."""
    settings = deployment.settings
    if settings.get("EMBEDDING_PROVIDER") not in _PROVIDERS:
        providers = " or ".join(f'"{provider}"' for provider in _PROVIDERS)
        raise ValueError(
            f"settings.EMBEDDING_PROVIDER: write {providers}; functions support no other provider"
        )
    names = {name.upper() for name in Settings.model_fields}
    if unknown := sorted(settings.keys() - names):
        raise ValueError(
            f"settings.{unknown[0]}: there is no such setting; shared/core/setting_groups.py lists"
            " them; write their names in capitals"
        )
    values: dict[str, Any] = {
        **{name.lower(): parse_value(text) for name, text in settings.items() if text},
        **dict.fromkeys(map(str.lower, deployment.secrets), "a-placeholder"),
        "access_secrets": ["x" * MIN_SECRET_LENGTH],
        "public_url": deployment.public_url or _SAMPLE_URL,
    }
    try:
        # The initializer of `Settings` would read this process's environment, too.
        BaseModel.__init__(Settings.__new__(Settings), **values)
    except InvalidInput as error:
        raise ValueError(f"settings: {error.message}") from None
    except ValidationError as error:
        problems = describe_problems(error)
        sentences = [f"{problem}{_format_example(name)}" for name, problem in problems]
        raise ValueError(f"settings: {'; '.join(sentences)}") from None


def _describe_error(error: ErrorDetails) -> str:
    """Describe what is wrong with a field, and how to write it."""
    path = [str(part) for part in error["loc"]]
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(path)}: {message}{_format_example(path[-1]) if path else ''}"


def _format_example(name: str) -> str:
    """Format an example of a setting's value, or return an empty string if there is no example.

    The settings with examples are lists and objects. In the deployment file, their values are JSON
    within a JSON string.
    """
    field = Settings.model_fields.get(name.lower())
    if not field or not field.examples:
        return ""
    return f'; for example, "{name}": {json.dumps(json.dumps(field.examples[0]))}'
