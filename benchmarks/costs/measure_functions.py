"""Measures the gateway's share of a call, cold starts, and the sizes of images."""

from __future__ import annotations

import os
import time
import zlib
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final

import httpx2
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import SecretStr

from benchmarks.costs.workload import count_operations
from benchmarks.measurement import make_cpu_measurement
from functions.gateway.access import Access
from functions.gateway.auth.callers import Credential
from functions.gateway.catalog import Declaration
from infra.build.discovery import tools
from infra.build.functions import functions
from infra.build.imports import follow_imports
from infra.build.requirements import find_requirements
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer
from tests.e2e.access.conftest import CLOUD_SETTINGS, NOTEBOOK
from tests.support.gateway_process import ACCESS_SECRET, run_gateway
from tests.support.mcp_wire import HEADERS, make_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.costs.workload import Figures
    from shared.runtime.messages import CallRequest

WARM_UP: Final = 20
"""The number of calls before the measurement."""
_LOCAL_ONLY_MODULE: Final = "shared.ai.local_embedding"
"""The embedding provider that bundles for the cloud do not contain."""


class StubDispatcher:
    """A dispatcher that answers immediately, so that only the gateway's work is measured."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:  # noqa: ARG002 - Dispatcher's signature
        """Answer with an empty result."""
        return CallAnswer(result={})

    async def health(self) -> dict[str, str]:
        """Report no dependencies."""
        return {}


async def count_gateway_operations() -> Figures:
    """Count the gateway's reads and writes in the database `access` for a call with a token.

    Each call goes through a new gateway, because only the first call of an instance reserves a
    share of the caller's rate limit.
    """
    secrets = (SecretStr(ACCESS_SECRET),)
    settings = Settings(google_cloud_project="bench-costs-access", access_secrets=secrets)
    operations_by_tool: dict[str, Mapping[str, int]] = {}
    for name in ("search_kb", "add_task"):
        access = Access(settings)
        token = access.tokens.issue(
            user_id="reader", client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
        )
        tool = next(tool for tool in tools() if tool.name == name)
        declared = Declaration.model_validate(tool.declaration())
        with count_operations(settings.access_database) as operations:
            caller = await access.callers.identify(Credential(token), "127.0.0.1")
            await access.make_pipeline(StubDispatcher()).call(
                declared, {"idempotency_key": "k"}, caller
            )
        operations_by_tool[name] = operations
        await access.aclose()
    read_call = operations_by_tool["search_kb"]
    write_call = operations_by_tool["add_task"]
    return {
        "reads": read_call["read"],
        "writes": read_call["written"],
        "writes_of_a_write": write_call["written"] - read_call["written"],
    }


def measure_gateway_seconds(log: Path, calls: int = 200) -> Figures:
    """Measure the elapsed time and CPU time of a call whose tool does nothing."""
    project = {"GOOGLE_CLOUD_PROJECT": "bench-costs-gateway"}
    no_rate_limit = {"READS_PER_MINUTE": "1000000"}
    with run_gateway(NOTEBOOK, project | CLOUD_SETTINGS | no_rate_limit, log) as running:
        access = Access(
            Settings(
                google_cloud_project="bench-costs-gateway",
                access_secrets=(SecretStr(ACCESS_SECRET),),
                public_url=running.url,
            )
        )
        token = access.tokens.issue(
            user_id="reader", client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
        )
        headers = {**HEADERS, "authorization": f"Bearer {token}"}
        group_id = running.gateway.process.pid
        with httpx2.Client(timeout=30, headers=headers) as http:

            def timed_call() -> float:
                started = time.perf_counter()
                http.post(running.endpoint, json=make_call("read_sign", {})).raise_for_status()
                return time.perf_counter() - started

            for _ in range(WARM_UP):
                timed_call()
            cpu_at_start = _read_cpu_seconds(group_id)
            durations = [timed_call() for _ in range(calls)]
            cpu_seconds = _read_cpu_seconds(group_id) - cpu_at_start
    return {"seconds": round(median(durations), 4), "cpu_seconds": round(cpu_seconds / calls, 4)}


def _read_cpu_seconds(group_id: int) -> float:
    """Return the CPU seconds that a process group has used, as Linux reports them."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group_id:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure_start_seconds(rounds: int = 3) -> Figures:
    """Measure the CPU seconds that a function of each kind needs for its imports."""
    samples = {
        "gateway": ["gateway"],
        "tool": ["search_kb", "get_chunk", "add_task"],
        "job": ["embed", "index", "ingest_materials"],
    }
    main_modules = {function.name: function.main for function in functions()}
    medians: Figures = {}
    for kind, names in samples.items():
        durations = [
            await make_cpu_measurement(f"{main_modules[name]}\nimport os; os._exit(0)")()
            for name in names
            for _ in range(rounds)
        ]
        medians[kind] = round(median(durations), 2)
    return medians


def estimate_image_megabytes() -> Figures:
    """Return the mean compressed size of the distributions that each kind of function installs.

    The standard library and the operating system are not included: all images share them.
    """
    sizes_by_kind: dict[str, list[int]] = {}
    for function in functions():
        requirements = find_requirements(
            follow_imports(function.main, {_LOCAL_ONLY_MODULE}).other_modules
        )
        sizes_by_kind.setdefault(function.kind, []).append(
            _compressed_bytes(_resolve_distributions(requirements))
        )
    return {kind: round(mean(sizes) / 1e6, 1) for kind, sizes in sizes_by_kind.items()}


def _resolve_distributions(lines: Iterable[str]) -> frozenset[str]:
    """Return the names of all distributions that requirement lines need, directly or indirectly."""
    resolved: set[tuple[str, str]] = set()
    pending = [(Requirement(line), "") for line in lines]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for extra in requirement.extras or {""}:
            if (requirement.name, extra) not in resolved:
                resolved.add((requirement.name, extra))
                dependencies = distribution(requirement.name).requires or ()
                pending += [(Requirement(line), extra) for line in dependencies]
    return frozenset(canonicalize_name(name) for name, _ in resolved)


@cache
def _compressed_bytes(names: frozenset[str]) -> int:
    paths = (
        Path(str(file.locate()))
        for name in names
        for file in distribution(name).files or ()
        if "__pycache__" not in file.parts
    )
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in paths if path.is_file())
