"""Derives the functions to deploy, with their resources and roles, from tools and jobs.

A function is a Cloud Function: the gateway, a tool or a job. Its resources follow from the
declaration of the tool or job, whose capabilities are the external services that it uses, such as
embedding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from infra.build.discovery import get_package_name, jobs, tools
from infra.build.requirements import PYTHON_VERSION
from shared.core.settings import ACCESS_DATABASE, KNOWLEDGE_DATABASE
from shared.runtime.capabilities import Capability
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.runtime.job import Job
    from shared.runtime.tool import Tool

Kind = Literal["gateway", "tool", "job"]

VIEWER_ROLE: Final = "roles/datastore.viewer"
"""The role of functions that only read."""
USER_ROLE: Final = "roles/datastore.user"
"""The role of functions that also write."""
TOOL_GRACE_SECONDS: Final = 5
"""A tool's function times out this many seconds after the tool's own time limit."""
JOB_GRACE_SECONDS: Final = 5 * 60
"""A job's function times out this many seconds after the job's budget ends, so that the job can
finish its current step."""
MAX_JOB_SECONDS: Final = 30 * 60
"""A job takes at most this long, because Cloud Scheduler waits no longer for a response."""
GATEWAY_SECONDS: Final = 300
"""A request to the gateway may take this long. Clients such as Claude wait no longer for a call."""

_GATEWAY_MAIN: Final = '''\
"""The Cloud Function of the gateway."""

from functions.gateway.main import handle

import httptools, uvloop  # uvicorn uses this HTTP parser and event loop if they are installed

__all__ = ["handle"]
'''
_MAIN: Final = '''\
"""The Cloud Function of `{name}`."""

from shared.runtime.{serving} import {serve}  # first: its first import times the cold start

from {module} import {declaration}

handle = {serve}({declaration})
'''

GATEWAY_SETTINGS: Final = (
    *("google_cloud_project", "public_url", "tool_urls", "trusted_proxies"),
    *("local_user", "public_access", "console", "proof_files", "default_role"),
    *("allowed_origins", "allowed_hosts", "time_zone"),
    *("requests_per_minute", "reads_per_minute", "writes_per_minute", "anonymous_per_minute"),
    *("sign_ins_per_ten_minutes", "registrations_per_hour"),
    *("google_client_id", "allowed_emails", "allowed_domains"),
    *("circuit_failure_threshold", "circuit_recovery_timeout"),
    *("billing_url", "disabled_tools", "tool_groups", "read_only", "tool_timeouts", "tool_prices"),
    *("embedding_provider", "openai_key_of_caller"),  # to know whether callers send an OpenAI key
    "generation_provider",  # to know whether there are extractions
)
"""The fields of `Settings` that the gateway reads, apart from its secrets."""
TOOL_SETTINGS: Final = ("google_cloud_project", "time_zone")
"""The fields of `Settings` that every tool reads."""
JOB_SETTINGS: Final = (*TOOL_SETTINGS, "lease_seconds")
"""The fields of `Settings` that every job reads."""
TELEMETRY_SETTINGS: Final = ("telemetry", "otel_exporter_otlp_endpoint")
"""The fields of `Settings` that all functions read."""
CAPABILITY_SETTINGS: Final = {
    Capability.EMBEDDING: (
        *("embedding_provider", "embedding_model", "embedding_dimension"),
        *("vertex_location", "vertex_base_url"),
        *("openai_base_url", "openai_shortens", "openai_key_of_caller"),
    ),
    Capability.GENERATION: (
        *("generation_provider", "generation_model", "generation_location", "vertex_base_url"),
        "generation_base_url",
    ),
    Capability.READWISE: ("readwise_url",),
    Capability.INGEST_BUCKET: ("ingest_bucket",),
    Capability.BULK_BUCKET: ("bulk_bucket",),
    Capability.INGEST_START: ("ingest_start_url",),
}
"""The fields of `Settings` that functions with a capability read."""
_TELEMETRY_SECRET: Final = "OTEL_EXPORTER_OTLP_HEADERS"  # noqa: S105 - the variable's name
"""The secret that all functions read to export spans."""
_SECRETS: Final = {
    Capability.EMBEDDING: "OPENAI_API_KEY",
    Capability.GENERATION: "GENERATION_API_KEY",
    Capability.READWISE: "READWISE_TOKEN",
}
"""The secret that functions with a capability read."""
_ROLES: Final = {
    Capability.EMBEDDING: "roles/aiplatform.user",
    Capability.GENERATION: "roles/aiplatform.user",
    Capability.INGEST_START: "roles/cloudscheduler.jobRunner",
}
"""The role in the project that functions with a capability get."""
_BUCKETS: Final = {
    Capability.INGEST_BUCKET: ("INGEST_BUCKET", "roles/storage.objectViewer"),
    Capability.BULK_BUCKET: ("BULK_BUCKET", "roles/storage.objectUser"),
}
"""The setting with the bucket that functions with a capability use, and their role on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A Cloud Function.

    Attributes:
        name: The name of the tool or job, or `gateway`.
        kind: Whether it is the gateway, a tool or a job.
        main: The source code of `main.py`, whose `handle` is the entry point.
        capabilities: The external services that the function uses.
        effect: A tool's effect on data, or None for the gateway and jobs.
        databases: The IAM role on each database that the function uses, by database name.
        settings: The environment variables that the function reads. A change of another setting
            does not redeploy it.
        secrets: The settings that the function reads from Secret Manager, if they are in use.
        memory: The memory of an instance, in MiB.
        concurrency: The maximum number of concurrent requests per instance.
        timeout: The seconds until a request is aborted.
        max_instances: The maximum number of instances.
        schedule: A job's schedule in cron format, in UTC, or an empty string for a job that runs on
            request.
    """

    name: str
    kind: Kind
    main: str
    capabilities: frozenset[Capability] = frozenset()
    effect: Effect | None = None
    databases: Mapping[str, str]
    settings: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    memory: int
    concurrency: int
    timeout: int
    max_instances: int
    schedule: str = ""

    @property
    def key(self) -> str:
        """The function's name in the cloud, where underscores are not allowed."""
        return self.name.replace("_", "-")

    def build_manifest_entry(self, bundle: str) -> dict[str, Any]:
        """Return the function's entry in the manifest, which Terraform reads."""
        return {
            "kind": self.kind,
            "name": self.name,
            "effect": self.effect.value if self.effect else None,
            "bundle": bundle,
            "runtime": f"python{PYTHON_VERSION.replace('.', '')}",
            "entry_point": "handle",
            "memory_mib": self.memory,
            "cpu": 1,  # less forces a concurrency of 1; more than 4 GiB of memory needs more
            "concurrency": self.concurrency,
            "timeout_seconds": self.timeout,
            "min_instances": 0,
            "max_instances": self.max_instances,
            "ingress": "ALLOW_INTERNAL_ONLY" if self.kind == "job" else "ALLOW_ALL",
            "settings": sorted(self.settings),
            "secrets": sorted(self.secrets),
            "databases": dict(self.databases),
            "project_roles": sorted(
                {_ROLES[capability] for capability in self.capabilities if capability in _ROLES}
            ),
            "buckets": dict(
                _BUCKETS[capability]
                for capability in sorted(self.capabilities)
                if capability in _BUCKETS
            ),
            "schedule": self.schedule,
        }


def functions() -> list[Function]:
    """Return all functions: the gateway, tools and jobs."""
    return [
        _build_gateway(),
        *map(_build_tool_function, tools()),
        *map(_build_job_function, jobs()),
    ]


def _build_gateway() -> Function:
    return Function(
        name="gateway",
        kind="gateway",
        main=_GATEWAY_MAIN,
        databases={ACCESS_DATABASE: USER_ROLE},
        settings=_to_variables(GATEWAY_SETTINGS, TELEMETRY_SETTINGS),
        secrets=("ACCESS_SECRETS", "BILLING_TOKEN", "GOOGLE_CLIENT_SECRET", _TELEMETRY_SECRET),
        memory=1024,  # request bodies alone may take 256 MiB
        concurrency=40,
        timeout=GATEWAY_SECONDS,
        max_instances=10,
    )


def _build_tool_function(tool: Tool[Any, Any]) -> Function:
    """Derive the function of a tool. Only a tool that writes may write to the database."""
    return Function(
        name=tool.name,
        kind="tool",
        main=_MAIN.format(
            name=tool.name,
            serving="serving",
            serve="serve",
            module=f"{get_package_name(tool)}.tool",
            declaration="TOOL",
        ),
        capabilities=tool.capabilities,
        effect=tool.effect,
        databases={KNOWLEDGE_DATABASE: VIEWER_ROLE if tool.effect is Effect.READ else USER_ROLE},
        settings=_to_variables(
            TOOL_SETTINGS,
            TELEMETRY_SETTINGS,
            *_get_capability_settings(tool.capabilities),
            tool.settings,
        ),
        secrets=_get_secrets(tool.capabilities),
        memory=tool.memory,
        concurrency=tool.concurrency,
        timeout=math.ceil(tool.time_limit) + TOOL_GRACE_SECONDS,
        max_instances=10,
    )


def _build_job_function(job: Job) -> Function:
    """Derive the function of a job, which has one instance and runs once at a time."""
    return Function(
        name=job.name,
        kind="job",
        main=_MAIN.format(
            name=job.name,
            serving="job_serving",
            serve="serve_job",
            module=f"functions.jobs.{job.name}.job",
            declaration="JOB",
        ),
        capabilities=job.capabilities,
        databases={KNOWLEDGE_DATABASE: USER_ROLE},
        settings=_to_variables(
            JOB_SETTINGS,
            TELEMETRY_SETTINGS,
            *_get_capability_settings(job.capabilities),
            job.settings,
        ),
        secrets=_get_secrets(job.capabilities),
        memory=job.memory,
        concurrency=1,
        timeout=math.ceil(job.timeout) + JOB_GRACE_SECONDS,
        max_instances=1,  # a second run would end immediately, because the first holds the lease
        schedule=job.schedule,
    )


def _to_variables(*settings: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the environment variables of settings, sorted and without repetitions."""
    return tuple(sorted({name.upper() for names in settings for name in names}))


def _get_capability_settings(capabilities: frozenset[Capability]) -> list[tuple[str, ...]]:
    return [CAPABILITY_SETTINGS[capability] for capability in capabilities]


def _get_secrets(capabilities: frozenset[Capability]) -> tuple[str, ...]:
    secrets = {_SECRETS[capability] for capability in capabilities if capability in _SECRETS}
    return (*sorted(secrets), _TELEMETRY_SECRET)
