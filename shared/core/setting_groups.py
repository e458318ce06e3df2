"""The settings in groups, one class per group, which `shared.core.settings` combines.

The first line of a class's docstring is the group's title in the documentation. A field's name in
capitals is the name of its environment variable.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shared.core.addresses import check_endpoint, check_host, check_origin, is_loopback
from shared.core.caller import USER_ID_FORMAT, is_user_id
from shared.core.circuit_breaker import FAILURE_THRESHOLD, OPEN_SECONDS
from shared.core.dates import load_time_zone

MIN_SECRET_LENGTH: Final = 32
"""The minimum length of a secret, in characters, so that it cannot be guessed."""
_EMBEDDING_MODELS: Final = {
    "local": "",
    "vertex": "gemini-embedding-001",
    "openai": "text-embedding-3-small",
}
"""The default embedding models, by provider."""
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BUCKET: Final = re.compile(r"gs://[a-z0-9][a-z0-9._-]+(/[^\x00-\x1f]*)?", re.ASCII)


def _check_endpoint(address: str, info: ValidationInfo) -> str:
    check_endpoint(str(info.field_name).upper(), address)
    return address


def _check_bucket(address: str, info: ValidationInfo) -> str:
    if not _BUCKET.fullmatch(address):
        raise ValueError(
            f"{str(info.field_name).upper()} must be gs://bucket or gs://bucket/prefix"
        )
    return address


Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
Bucket = Annotated[str, AfterValidator(_check_bucket)]


class SettingGroup(BaseModel):
    """The base class of all groups."""

    # Errors are logged, and must not quote secrets. Pydantic builds a validator only for the
    # combined class, because a validator for each group would slow down every cold start.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )


class DatabaseSettings(SettingGroup):
    """Project and databases."""

    google_cloud_project: str = Field(
        default="carrel-local",
        description="The Google Cloud project. Local commands set it.",
    )
    lease_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Seconds for which the lease of a killed job prevents other runs.",
    )


class AccessSettings(SettingGroup):
    """Access to the gateway."""

    public_url: str = Field(
        default="http://localhost:8080",
        description="The gateway's public URL: an https origin, or an http origin on loopback."
        " The gateway answers requests for this host only.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        examples=[["https://app.example.com"]],
        description="Origins of other web pages that may call the gateway.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        examples=[["host.docker.internal"]],
        description="Further host names under which MCP clients reach the gateway: exact, in lower"
        " case, with a port if it is not that of PUBLIC_URL.",
    )
    trusted_proxies: int | None = Field(
        default=None,
        ge=0,
        description="The number of proxies in front of the gateway that each add an address to"
        " X-Forwarded-For; with 0, the client is the address that connects. The default is 1, for"
        " Cloud Run, and 0 on loopback.",
    )
    access_secrets: tuple[SecretStr, ...] = Field(
        default=(),
        examples=[["32 random characters or more"]],
        description="Secrets of at least 32 random characters. The first signs and hashes; all of"
        " them verify. To rotate, put a new secret first and drop the old one months later.",
    )
    local_user: str | None = Field(
        default=None,
        description="The user as whom calls without a credential act, with all rights. Allowed only"
        " where PUBLIC_URL is on loopback.",
    )
    public_access: bool = Field(
        default=False, description="Whether PUBLIC tools may be called without signing in."
    )
    console: bool = Field(
        default=True, description="Whether the gateway serves the web console for people."
    )
    proof_files: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"openai-apps-challenge": "the text that OpenAI shows"}],
        description="Public texts by their name under /.well-known/, by which a directory of apps"
        " checks that the operator owns this address.",
    )
    default_role: Literal["reader", "editor", "owner"] = Field(
        default="reader",
        description="The role of users to whom `carrel accounts role` gave none: a reader reads the"
        " knowledge base, an editor also saves notes and links, an owner changes and forgets"
        " everything.",
    )

    @property
    def proxy_count(self) -> int:
        """The number of trusted proxies in front of the gateway."""
        if self.trusted_proxies is not None:
            return self.trusted_proxies
        return 0 if is_loopback(urlsplit(self.public_url)) else 1

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        check_origin("PUBLIC_URL", self.public_url)
        for host in self.allowed_hosts:
            check_host("ALLOWED_HOSTS", host)
        if "*" in self.allowed_origins:
            raise ValueError(
                "ALLOWED_ORIGINS must name each origin: * would let every web page call the gateway"
            )
        if self.local_user and not is_loopback(urlsplit(self.public_url)):
            raise ValueError(
                "LOCAL_USER opens everything: it is allowed only where PUBLIC_URL is on loopback"
            )
        if any(
            len(secret.get_secret_value()) < MIN_SECRET_LENGTH for secret in self.access_secrets
        ):
            raise ValueError(
                f"ACCESS_SECRETS must have at least {MIN_SECRET_LENGTH} characters each"
            )
        return self

    @field_validator("proof_files")
    @classmethod
    def _check_names(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if not _FILE_NAME.fullmatch(name) or name.startswith("oauth-"):
                raise ValueError(
                    "PROOF_FILES names files of letters, digits, dots, hyphens and underscores, and"
                    " none that begins with oauth-, which this server has itself"
                )
        return files

    @field_validator("local_user")
    @classmethod
    def _check_user(cls, user_id: str | None) -> str | None:
        if user_id and not is_user_id(user_id):
            raise ValueError(f"LOCAL_USER must be {USER_ID_FORMAT}")
        return user_id


class SignInSettings(SettingGroup):
    """Sign-in with Google."""

    google_client_id: str = Field(
        default="",
        description="The id of the OAuth client for Google sign-in. Without it, people sign in with"
        " an access key.",
    )
    google_client_secret: SecretStr = Field(
        default=SecretStr(""), description="The secret of that OAuth client."
    )
    allowed_emails: tuple[str, ...] = Field(
        default=(),
        examples=[["you@example.com"]],
        description="E-mail addresses of people who may sign in with Google.",
    )
    allowed_domains: tuple[str, ...] = Field(
        default=(),
        examples=[["example.com"]],
        description="Google Workspace domains whose people may all sign in.",
    )

    @model_validator(mode="after")
    def _check_google_client(self) -> Self:
        if bool(self.google_client_id) != bool(self.google_client_secret):
            raise ValueError("GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET must be set together")
        return self


class LimitSettings(SettingGroup):
    """Rate limits."""

    reads_per_minute: int = Field(
        default=60, ge=1, description="Calls of READ tools a minute, per user."
    )
    writes_per_minute: int = Field(
        default=20, ge=1, description="Calls of all other tools a minute, per user."
    )
    anonymous_per_minute: int = Field(
        default=10, ge=1, description="Calls without a credential a minute, per address."
    )
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        description="HTTP requests of any kind a minute, per address and gateway instance. Not"
        " counted where LOCAL_USER is set.",
    )
    sign_ins_per_ten_minutes: int = Field(
        default=10, ge=1, description="Attempts to sign in within ten minutes, per address."
    )
    registrations_per_hour: int = Field(
        default=20, ge=1, description="OAuth clients registered an hour, per address."
    )


class ToolSettings(SettingGroup):
    """Tools and billing."""

    disabled_tools: tuple[str, ...] = Field(
        default=(),
        examples=[["get_stats"]],
        description="Tools that are switched off: they are neither listed nor called.",
    )
    tool_groups: tuple[str, ...] = Field(
        default=(),
        examples=[["knowledge", "tasks"]],
        description="The groups of tools that are offered; by default, all.",
    )
    read_only: bool = Field(
        default=False, description="Whether only tools that change nothing are offered."
    )
    tool_timeouts: dict[str, float] = Field(
        default_factory=dict,
        examples=[{"search_kb": 20}],
        description="Time limits in seconds by tool name, in place of the tools' own.",
    )
    tool_prices: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        examples=[{"search_kb": 500}],
        description="The highest price of a call by tool name, in millionths of a dollar, in place"
        " of the tools' own.",
    )
    tool_urls: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"search_kb": "https://search.example.com"}],
        description="The URL of each tool's function by tool name.",
    )
    billing_url: str | None = Field(
        default=None,
        description="An external billing service. Without it, Carrel keeps the accounts itself.",
    )
    billing_token: SecretStr | None = Field(
        default=None, description="The bearer token for the billing service."
    )
    circuit_failure_threshold: int = Field(
        default=FAILURE_THRESHOLD,
        ge=1,
        description="How many calls in a row must fail before a tool's function or the billing"
        " service gets no calls for a while.",
    )
    circuit_recovery_timeout: float = Field(
        default=OPEN_SECONDS,
        gt=0,
        description="Seconds until one call tries again whether a function or a billing service"
        " that kept failing works.",
    )
    time_zone: str = Field(
        default="UTC",
        description="The IANA time zone, such as Europe/Berlin, of days: when tasks are due, what"
        " today and last week are, unless a call names another, which day an answer shows, and of"
        " dates that a file gives without a zone. A change takes effect at once, except for such"
        " dates: the next ingest run dates the highlights and notes of a folder anew, and others"
        " when their file changes. A date of writing stays as it was first stored.",
    )

    @field_validator("time_zone")
    @classmethod
    def _check_time_zone(cls, name: str) -> str:
        load_time_zone(name)
        return name


class KeyInfoSettings(SettingGroup):
    """Passages from documents that callers provide (`extract_key_info`)."""

    extract_top_k: int = Field(
        default=5, ge=1, le=20, description="The default number of passages that a call returns."
    )
    extract_passage_characters: int = Field(
        default=1_500,
        ge=200,
        le=7_500,  # twenty of them must fit into a Firestore document
        description="The longest passage in characters, at most 940 with the local model. A longer"
        " paragraph is split at its sentences.",
    )
    extract_materials_characters: int = Field(
        default=2_000_000,
        ge=1,
        description="The maximum number of characters that a call indexes; a job indexes the rest.",
    )
    materials_days: int = Field(
        default=90,
        ge=1,
        description="Days without use after which a workspace's documents are deleted.",
    )


class EmbeddingSettings(SettingGroup):
    """Embedding."""

    embedding_provider: Literal["local", "vertex", "openai"] = Field(
        default="local",
        description="The provider of embeddings: local is a small model in this process, vertex"
        " is Vertex AI, openai is any endpoint with OpenAI's API.",
    )
    embedding_model: str = Field(
        default="",
        description="The model at that provider; by default gemini-embedding-001 on Vertex AI, and"
        " text-embedding-3-small at an endpoint.",
    )
    embedding_dimension: int = Field(
        default=768,
        ge=1,
        le=2048,
        description="The dimension of its vectors, at most 2,048, Firestore's limit. The local"
        " model has its own.",
    )
    vertex_location: str = Field(default="europe-west1", description="The Vertex AI region.")
    vertex_base_url: Endpoint | None = Field(
        default=None,
        description="Another address for Vertex AI, such as a private endpoint or a test server.",
    )
    openai_base_url: Endpoint = Field(
        default="https://api.openai.com/v1",
        description="The endpoint's address without `/embeddings`: https, or http on loopback.",
    )
    openai_shortens: bool = Field(
        default=True,
        description="Whether the model can shorten its vectors (the parameter `dimensions`).",
    )
    openai_api_key: SecretStr | None = Field(
        default=None, description="The bearer token for the endpoint, if it needs one."
    )
    openai_key_of_caller: bool = Field(
        default=False,
        description="Whether calls embed with their caller's access key, for an endpoint that"
        " accepts the keys of this deployment. Jobs always embed with OPENAI_API_KEY.",
    )
    bulk_bucket: Bucket | None = Field(
        default=None,
        description="gs://bucket/prefix for the files of Vertex AI's batch predictions. Without it,"
        " texts are embedded online only.",
    )

    @property
    def embedding_model_or_default(self) -> str:
        """The embedding model, at Vertex AI or an endpoint."""
        return self.embedding_model or _EMBEDDING_MODELS[self.embedding_provider]

    @property
    def embeds_with_callers_keys(self) -> bool:
        """Whether calls embed with their callers' access keys."""
        return self.embedding_provider == "openai" and self.openai_key_of_caller


class GenerationSettings(SettingGroup):
    """Knowledge cards, cluster names and extractions."""

    generation_provider: Literal["extractive", "vertex", "openai"] = Field(
        default="extractive",
        description="The author of knowledge cards and cluster names: extractive selects sentences"
        " and terms from the texts, vertex prompts a language model on Vertex AI, openai one at any"
        " endpoint with OpenAI's API. Extractions (decisions, patterns, warnings and methodologies)"
        " need a language model.",
    )
    generation_model: str = Field(
        default="",
        description="The language model; by default gemini-3.5-flash-lite on Vertex AI. An endpoint"
        " needs one.",
    )
    generation_base_url: Endpoint | None = Field(
        default=None,
        description="The endpoint's address without `/chat/completions`, such as"
        " http://localhost:11434/v1: https, or http on loopback. It receives every passage, and has"
        " no default.",
    )
    generation_api_key: SecretStr | None = Field(
        default=None, description="The bearer token for that endpoint, if it needs one."
    )
    generation_location: str = Field(
        default="global",
        description="The Vertex AI region of the language model; global is any region with"
        " capacity.",
    )
    topic_aliases: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"llms": "language models"}],
        description="Other names of an extraction's topics, each with the topic that it stands for,"
        " in addition to the built-in ones.",
    )


class IngestSettings(SettingGroup):
    """Ingest."""

    ingest_path: str | None = Field(
        default=None, description="The file or folder that the ingest job reads."
    )
    ingest_bucket: Bucket | None = Field(
        default=None, description="gs://bucket/prefix whose files the ingest job reads."
    )
    ingest_start_url: Endpoint | None = Field(
        default=None,
        description="The address at which Cloud Scheduler starts the ingest job for a saved link;"
        " without it, the job runs by its schedule. `carrel deploy` sets it.",
    )
    readwise_token: SecretStr | None = Field(
        default=None, description="The access token of the Readwise library to import."
    )
    readwise_url: Endpoint = Field(
        default="https://readwise.io/api/v2", description="The address of the Readwise API."
    )


class TelemetrySettings(SettingGroup):
    """Telemetry."""

    telemetry: Literal["gcp"] | None = Field(
        default=None,
        description="gcp exports spans to Cloud Trace. If neither this nor an endpoint is set, no"
        " spans are recorded.",
    )
    otel_exporter_otlp_endpoint: str | None = Field(
        default=None,
        description="The address of another collector, which takes spans over OTLP (HTTP,"
        " protobuf), such as http://localhost:4318.",
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        default=None, description="Headers for that collector, such as api-key=SECRET."
    )

    @property
    def exports_spans(self) -> bool:
        """Whether spans are recorded and exported."""
        return bool(self.telemetry or self.otel_exporter_otlp_endpoint)

    @model_validator(mode="after")
    def _check_endpoint(self) -> Self:
        if self.otel_exporter_otlp_endpoint:
            check_endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", self.otel_exporter_otlp_endpoint)
            if self.telemetry:
                raise ValueError("Set either TELEMETRY or OTEL_EXPORTER_OTLP_ENDPOINT, not both")
        return self
