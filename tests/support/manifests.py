"""Manifests, which list the functions that Terraform deploys: a small one, and the real one."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from infra.build.functions import functions

READER: Final = {"(default)": "roles/datastore.viewer"}
"""The database roles of functions that only read."""
WRITER: Final = {"(default)": "roles/datastore.user"}
"""The database roles of functions that write."""
VERTEX: Final = ["roles/aiplatform.user"]
"""The project roles of functions that use Vertex AI."""


def make_function(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    """Make the entry of a function in a manifest; `parts` override typical values."""
    key = name.replace("_", "-")
    return {
        "kind": kind,
        "name": name,
        "effect": None,
        "bundle": f"bundles/{key}-0123456789abcdef.zip",
        "runtime": "python311",
        "entry_point": "handle",
        "memory_mib": 512,
        "cpu": 1,
        "concurrency": 16,
        "timeout_seconds": 60,
        "min_instances": 0,
        "max_instances": 10,
        "ingress": "ALLOW_ALL",
        "settings": ["EMBEDDING_PROVIDER", "EMBEDDING_DIMENSION"],
        "secrets": [],
        "databases": {},
        "project_roles": [],
        "buckets": {},
        "schedule": "",
        **parts,
    }


def make_job(name: str, **parts: Any) -> dict[str, Any]:
    """Make the entry of a job in a manifest; `parts` override typical values."""
    defaults = {"concurrency": 1, "timeout_seconds": 1500, "max_instances": 1, "databases": WRITER}
    return make_function("job", name, **{**defaults, **parts})


def make_manifest() -> dict[str, Any]:
    """Make a manifest with the gateway, and tools and jobs that differ in every field."""
    gateway_secrets = ["ACCESS_SECRETS", "GOOGLE_CLIENT_SECRET", "BILLING_TOKEN"]
    functions = [
        make_function(
            "gateway",
            "gateway",
            settings=["PUBLIC_URL", "TOOL_TIMEOUTS", "TOOL_URLS"],
            secrets=gateway_secrets,
            databases={"access": "roles/datastore.user"},
            timeout_seconds=300,
        ),
        make_function(
            "tool",
            "search_kb",
            effect="read",
            databases=READER,
            project_roles=VERTEX,
            secrets=["OPENAI_API_KEY"],
        ),
        make_function("tool", "get_chunk", effect="read", databases=READER, timeout_seconds=40),
        make_function("tool", "add_task", effect="write", databases=WRITER),
        make_function("tool", "delete_task", effect="destroy", databases=WRITER),
        make_job(
            "ingest",
            schedule="0 4 * * *",
            settings=["INGEST_BUCKET"],
            secrets=["READWISE_TOKEN"],
            buckets={"INGEST_BUCKET": "roles/storage.objectViewer"},
        ),
        make_job(
            "embed",
            schedule="*/15 * * * *",
            secrets=["OPENAI_API_KEY"],
            project_roles=VERTEX,
            buckets={"BULK_BUCKET": "roles/storage.objectUser"},
            timeout_seconds=1800,
        ),
        make_job("repair", schedule="42 3 * * 0"),
        make_job("reembed", project_roles=VERTEX),
    ]
    return {"functions": {entry["name"].replace("_", "-"): entry for entry in functions}}


@cache
def build_real_manifest() -> dict[str, Any]:
    """Return the manifest of all functions. The bundles that it names do not exist.

    The result is cached: do not change it.
    """
    return {
        "functions": {
            function.key: function.build_manifest_entry(
                f"bundles/{function.key}-0123456789abcdef.zip"
            )
            for function in functions()
        }
    }
