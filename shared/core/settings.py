"""Everything that differs between a laptop and the cloud, in one frozen object."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shared.core.caller import USER_FORM, is_user
from shared.core.dates import time_zone
from shared.core.errors import InvalidInput
from shared.core.settings_errors import problems

if TYPE_CHECKING:
    from urllib.parse import SplitResult

HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""As addresses have them."""
_NAMES: Final = frozenset(each.strip("[]") for each in HOSTS)


def is_loopback(url: SplitResult) -> bool:
    """Whether an address leads to this machine."""
    return url.hostname in _NAMES


MOST_QUOTED: Final = 150_000
"""Characters that an answer of `extract_key_info` quotes at most."""
LEAST_SECRET: Final = 32
"""Characters of a secret that nobody guesses."""
_USUAL_PORTS: Final = {"https": ":443", "http": ":80"}
_ORIGIN: Final = re.compile(
    r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?/?", re.IGNORECASE | re.ASCII
)
_BUCKET: Final = re.compile(r"gs://[a-z0-9][a-z0-9._-]+(/[^\x00-\x1f]*)?", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")


class Settings(BaseModel):
    """Read once, at start, from the environment; an argument beats a variable of the same name.

    A variable is named as its field, in capitals; a list or an object is written as JSON. The
    Firestore client itself reads `FIRESTORE_EMULATOR_HOST`, as all of Google's clients do.
    `pydantic-settings` does this too, for 7 % of a tool function's cold start.
    """

    # What is wrong is said in the log, where no secret may stand.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    google_cloud_project: str = Field(
        default="carrel-local", description="The Google Cloud project; on the emulator, any name."
    )
    firestore_database: str = Field(
        default="(default)", description="The Firestore database of knowledge and users' data."
    )
    access_database: str = Field(
        default="access",
        description="The Firestore database of credentials, accounts, calls and limits.",
    )
    public_url: str = Field(
        default="http://localhost:8080",
        description="Where clients reach the gateway: an https origin, or an http one on loopback."
        " Its host is the only one that the gateway answers to.",
    )
    access_secrets: tuple[SecretStr, ...] = Field(
        default=(),
        examples=[["32 random characters or more"]],
        description="Secrets of at least 32 random characters: the first signs and hashes, all"
        " verify. To rotate them, put a new one in front, and drop the old one months later.",
    )
    local_user: str | None = Field(
        default=None,
        description="Who calls without a credential, with all rights: on a laptop's loopback only.",
    )
    public_access: bool = Field(
        default=False, description="Whether anybody may call PUBLIC tools without signing in."
    )
    trusted_proxies: int | None = Field(
        default=None,
        ge=0,
        description="How many proxies in front each add an address to X-Forwarded-For; 0 takes the"
        " address that connects. By default 1, which is Cloud Run's, and 0 on loopback.",
    )
    reads_per_minute: int = Field(default=60, ge=1, description="Calls of READ tools, per user.")
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        description="Requests of any kind, per address and instance: whoever sends more costs"
        " database reads and gets nothing. Nobody counts where LOCAL_USER is set.",
    )
    writes_per_minute: int = Field(default=20, ge=1, description="Other calls, per user.")
    anonymous_per_minute: int = Field(
        default=10, ge=1, description="Calls without a credential, per address."
    )
    sign_ins_per_ten_minutes: int = Field(
        default=10, ge=1, description="Attempts to sign in, per address."
    )
    registrations_per_hour: int = Field(
        default=20, ge=1, description="Programs that register for sign-in, per address."
    )
    google_client_id: str = Field(
        default="", description="Of the OAuth client for Google sign-in; without it, by key."
    )
    google_client_secret: SecretStr = Field(default=SecretStr(""), description="Its secret.")
    google_issuer: str = Field(
        default="https://accounts.google.com", description="The OpenID Connect issuer."
    )
    allowed_emails: tuple[str, ...] = Field(
        default=(), examples=[["you@example.com"]], description="Who may sign in with Google."
    )
    allowed_domains: tuple[str, ...] = Field(
        default=(),
        examples=[["example.com"]],
        description="Google Workspace domains all of whose people may sign in.",
    )
    billing_url: str | None = Field(
        default=None, description="An external billing service; without it, accounts are ours."
    )
    billing_token: SecretStr | None = Field(
        default=None, description="What the billing service takes as a bearer token."
    )
    disabled_tools: tuple[str, ...] = Field(
        default=(),
        examples=[["get_stats"]],
        description="Tools that are switched off: nobody sees or calls them.",
    )
    tool_timeouts: dict[str, float] = Field(
        default_factory=dict,
        examples=[{"search_kb": 20}],
        description="Tool name to seconds, where its own are not right.",
    )
    tool_prices: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        examples=[{"search_kb": 500}],
        description="Tool name to the most that a call costs, in millionths of a dollar, where its"
        " own price is not right.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        examples=[["https://app.example.com"]],
        description="Origins of web pages that may call the gateway, beside its own.",
    )
    max_request_bytes: int = Field(
        default=8 * 1024 * 1024,
        gt=0,
        le=32 * 1024 * 1024,
        description="The largest request body the gateway takes of whom it knows: 2,000,000"
        " characters of up to 4 bytes in UTF-8, and what is around them. Cloud Run takes 32 MiB.",
    )
    tool_urls: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"search_kb": "https://search.example.com"}],
        description="Tool name to the URL of its function, as JSON.",
    )
    extract_top_k: int = Field(
        default=5, ge=1, description="Passages that extract_key_info returns unless told otherwise."
    )
    extract_top_k_limit: int = Field(
        default=20, ge=1, le=50, description="The most that a call may ask for."
    )
    extract_semantic_weight: float = Field(
        default=0.65,
        ge=0,
        le=1,
        description="How much likeness in meaning counts for it; words (BM25) count for the rest.",
    )
    extract_passage_characters: int = Field(
        default=1_500,
        ge=200,
        le=8_000,
        description="The longest passage; a paragraph beyond that is split at its sentences.",
    )
    extract_materials_characters: int = Field(
        default=2_000_000,
        ge=1,
        description="Characters that one call takes in at once; more is left to a job.",
    )
    materials_days: int = Field(
        default=90, ge=1, description="Days without use after which a task's materials are purged."
    )
    embedding_provider: Literal["local", "vertex", "openai"] = Field(
        default="local",
        description="Who turns text into vectors; openai is any endpoint that speaks as it does.",
    )
    vertex_model: str = Field(
        default="gemini-embedding-001", description="The embedding model on Vertex AI."
    )
    vertex_dimension: int = Field(
        default=768, ge=1, le=2048, description="The length of its vectors; Firestore takes 2,048."
    )
    vertex_location: str = Field(default="europe-west1", description="The Vertex AI region.")
    vertex_base_url: str | None = Field(
        default=None, description="Another address for Vertex AI: a private endpoint, a test."
    )
    openai_base_url: str = Field(
        default="https://api.openai.com/v1",
        description="The endpoint's address, up to `/embeddings`: https, or http on loopback.",
    )
    openai_model: str = Field(
        default="text-embedding-3-small", description="The embedding model that it is asked for."
    )
    openai_dimension: int = Field(
        default=768, ge=1, le=2048, description="The length of its vectors; Firestore takes 2,048."
    )
    openai_shortens: bool = Field(
        default=True, description="Whether the model can shorten its vectors, by `dimensions`."
    )
    openai_api_key: SecretStr | None = Field(
        default=None, description="What the endpoint takes as a bearer token, if it asks for one."
    )
    openai_key_of_caller: bool = Field(
        default=False,
        description="Whether each call embeds with the access key of its caller: where the endpoint"
        " knows the keys of this deployment. Jobs embed with OPENAI_API_KEY all the same.",
    )
    generation_provider: Literal["extractive", "vertex"] = Field(
        default="extractive",
        description="Who writes knowledge cards and names of topics. extractive picks them from the"
        " texts; decisions, patterns, warnings and methodologies need a language model.",
    )
    generation_model: str = Field(
        default="gemini-3.5-flash-lite", description="The language model on Vertex AI."
    )
    generation_location: str = Field(
        default="global", description="Where it is asked: a region, or wherever there is room."
    )
    bulk_bucket: str | None = Field(
        default=None,
        description="gs://bucket/prefix where Vertex AI reads and writes what is embedded in bulk;"
        " without it, everything is embedded text by text.",
    )
    bulk_from: int = Field(
        default=10_000, ge=1, description="Passages that must wait to be embedded in bulk."
    )
    ingest_path: str | None = Field(
        default=None, description="The file or folder that the ingest job reads."
    )
    ingest_bucket: str | None = Field(
        default=None, description="gs://bucket/prefix whose files it reads."
    )
    readwise_token: SecretStr | None = Field(
        default=None, description="The Readwise access token: it follows that library."
    )
    readwise_url: str = Field(
        default="https://readwise.io/api/v2", description="Readwise, or a test's stand-in."
    )
    topic_aliases: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"llms": "language models"}],
        description="Other names of topics to their own, beside those that Carrel knows.",
    )
    time_zone: str = Field(
        default="UTC",
        description="The IANA time zone, such as Europe/Berlin, whose midnight ends the days of"
        " tasks where a call names no other.",
    )
    lease_seconds: float = Field(
        default=60.0, gt=0, description="How long a job that died keeps others out."
    )

    def __init__(self, **arguments: Any) -> None:
        """Take the arguments, else the environment, else the defaults.

        Raises:
            InvalidInput: Some are not valid; the message names them and quotes no value.
        """
        try:
            super().__init__(**(_environment() | arguments))
        except ValidationError as error:
            sentences = (f"{problem}{_example(name)}." for name, problem in problems(error))
            raise InvalidInput(" ".join(sentences)) from None

    @property
    def proxies(self) -> int:
        """How many proxies in front are ours."""
        if self.trusted_proxies is not None:
            return self.trusted_proxies
        return 0 if is_loopback(urlsplit(self.public_url)) else 1

    @property
    def embeds_with_callers_keys(self) -> bool:
        """Whether calls embed with the access keys of their callers."""
        return self.embedding_provider == "openai" and self.openai_key_of_caller

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if not _ORIGIN.fullmatch(self.public_url):
            raise ValueError("PUBLIC_URL is https://host or https://host:port, and nothing more")
        url = _parts("PUBLIC_URL", self.public_url)
        if url.scheme != "https" and not is_loopback(url):
            raise ValueError("PUBLIC_URL begins with https, unless it is a loopback one")
        if url.netloc.endswith(_USUAL_PORTS[url.scheme]) or not _has_port_in_range(url):
            raise ValueError("PUBLIC_URL names no port where it is the usual one, and a real one")
        if "*" in self.allowed_origins:
            raise ValueError("ALLOWED_ORIGINS names origins, one by one: * would be all web pages")
        if self.local_user and not is_loopback(url):
            raise ValueError("LOCAL_USER opens everything: only where PUBLIC_URL is a loopback one")
        if any(len(secret.get_secret_value()) < LEAST_SECRET for secret in self.access_secrets):
            raise ValueError(f"each of ACCESS_SECRETS needs at least {LEAST_SECRET} characters")
        if bool(self.google_client_id) != bool(self.google_client_secret):
            raise ValueError("GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET are set both, or neither")
        return self

    @model_validator(mode="after")
    def _within_its_limit(self) -> Self:
        if self.extract_top_k > self.extract_top_k_limit:
            raise ValueError("EXTRACT_TOP_K is EXTRACT_TOP_K_LIMIT at most")
        if self.extract_top_k_limit * self.extract_passage_characters > MOST_QUOTED:
            raise ValueError(
                "EXTRACT_TOP_K_LIMIT times EXTRACT_PASSAGE_CHARACTERS is"
                f" {MOST_QUOTED:,} at most: an answer must fit a document"
            )
        return self

    @field_validator("local_user")
    @classmethod
    def _named(cls, user_id: str | None) -> str | None:
        if user_id and not is_user(user_id):
            raise ValueError(f"LOCAL_USER must be {USER_FORM}")
        return user_id

    @field_validator("openai_base_url", "readwise_url")
    @classmethod
    def _encrypted(cls, address: str, info: ValidationInfo) -> str:
        name = str(info.field_name).upper()
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"{name} is an address without a user, a query or a fragment")
        url = _parts(name, address)
        if url.scheme != "https" and not is_loopback(url):
            raise ValueError(f"{name} begins with https, unless it is a loopback one")
        return address

    @field_validator("bulk_bucket", "ingest_bucket")
    @classmethod
    def _in_cloud_storage(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is not None and not _BUCKET.fullmatch(address):
            name = str(info.field_name).upper()
            raise ValueError(f"{name} is gs://bucket or gs://bucket/prefix")
        return address

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        time_zone(name)
        return name


def _parts(name: str, address: str) -> SplitResult:
    """Split the address in this variable."""
    try:
        return urlsplit(address)
    except ValueError:  # its message may quote the address
        raise ValueError(f"{name} has a host that is no name and no IP address") from None


def _has_port_in_range(url: SplitResult) -> bool:
    try:
        return url.port != 0
    except ValueError:
        return False


def _environment() -> dict[str, Any]:
    """What the environment says of the settings; an empty variable says nothing."""
    found = {name: os.environ.get(name.upper(), "") for name in Settings.model_fields}
    return {name: value_of(text) for name, text in found.items() if text}


def value_of(text: str) -> Any:
    """The value of a variable: a JSON list or object, or else the text itself."""
    if text[0] not in "[{":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _example(name: str) -> str:
    """How a variable is set whose value is JSON."""
    field = Settings.model_fields.get(name.lower())
    return f", such as {name}='{json.dumps(field.examples[0])}'" if field and field.examples else ""
