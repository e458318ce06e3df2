"""Measures functions: the gateway's part of a call, cold starts, and images."""

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

from benchmarks.cold_start import import_seconds
from benchmarks.costs.workload import count_operations
from functions.gateway.access import Access
from functions.gateway.auth.callers import Credential
from functions.gateway.catalog import Declaration
from infra.build.discovery import tools
from infra.build.functions import functions
from infra.build.imports import import_closure
from infra.build.requirements import find_requirements
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer
from tests.e2e.access.conftest import CLOUD, NOTEBOOK
from tests.support.gateway_process import SECRET, run_gateway
from tests.support.mcp_wire import HEADERS
from tests.support.mcp_wire import call as message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.costs.workload import Figures
    from shared.runtime.messages import CallRequest

WARM_UP: Final = 20
"""The number of calls before the measurement."""
_LAPTOP: Final = "shared.ai.local_embedding"
"""The provider that no bundle of the cloud contains."""


class StubDispatcher:
    """A dispatcher that answers at once."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:  # noqa: ARG002 - the same for all
        """Answer with an empty result."""
        return CallAnswer(result={})

    async def health(self) -> dict[str, str]:
        """Report no dependencies."""
        return {}


async def gateway_operations() -> Figures:
    """Return the reads and writes of the gateway for a call with a token.

    CallPipeline lie so far apart that each takes a new share of its caller's limit.
    """
    secrets = (SecretStr(SECRET),)
    settings = Settings(google_cloud_project="bench-costs-access", access_secrets=secrets)
    results: dict[str, Mapping[str, int]] = {}
    for name in ("search_kb", "add_task"):
        access = Access(settings)
        token = access.tokens.issue(
            user_id="reader", client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
        )
        tool = next(tool for tool in tools() if tool.name == name)
        declared = Declaration.model_validate(tool.declaration())
        with count_operations(settings.access_database) as requests:
            visitor = await access.callers.identify(Credential(token), "127.0.0.1")
            await access.pipeline(StubDispatcher()).call(
                declared, {"idempotency_key": "k"}, visitor
            )
        results[name] = requests
        await access.aclose()
    reading, writing = results["search_kb"], results["add_task"]
    return {
        "reads": reading["read"],
        "writes": reading["written"],
        "writes_of_a_write": writing["written"] - reading["written"],
    }


def gateway_seconds(log: Path, calls: int = 200) -> Figures:
    """Return the elapsed time and processor time of the gateway for a call that does nothing."""
    project = {"GOOGLE_CLOUD_PROJECT": "bench-costs-gateway"}
    endless = {"READS_PER_MINUTE": "1000000"}
    with run_gateway(NOTEBOOK, project | CLOUD | endless, log) as running:
        access = Access(
            Settings(
                google_cloud_project="bench-costs-gateway",
                access_secrets=(SecretStr(SECRET),),
                public_url=running.url,
            )
        )
        token = access.tokens.issue(
            user_id="reader", client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
        )
        headers = {**HEADERS, "authorization": f"Bearer {token}"}
        taken: list[float] = []
        began = 0.0
        with httpx2.Client(timeout=30, headers=headers) as http:
            for number in range(calls + WARM_UP):
                if number == WARM_UP:
                    began = _processor(running.gateway.process.pid)
                    taken.clear()
                start = time.perf_counter()
                http.post(running.endpoint, json=message("read_sign", {})).raise_for_status()
                taken.append(time.perf_counter() - start)
        own = _processor(running.gateway.process.pid) - began
    return {"seconds": round(median(taken), 4), "processor": round(own / calls, 4)}


def _processor(group: int) -> float:
    """Return the processor seconds of a process group so far, on Linux."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def start_seconds(rounds: int = 3) -> Figures:
    """Return the processor seconds to import a function of each kind."""
    names = {
        "gateway": ["gateway"],
        "tool": ["search_kb", "get_chunk", "add_task"],
        "job": ["embed", "index", "ingest_materials"],
    }
    programs = {function.name: function.main for function in functions()}
    results: Figures = {}
    for kind, measured in names.items():
        taken = [
            await import_seconds(f"{programs[name]}\nimport os; os._exit(0)")()
            for name in measured
            for _ in range(rounds)
        ]
        results[kind] = round(median(taken), 2)
    return results


def image_megabytes() -> Figures:
    """Return the megabytes installed for a function of each kind, with each file compressed.

    Without the standard library and the system, which all images have in common.
    """
    results: dict[str, list[int]] = {}
    for function in functions():
        asked = find_requirements(import_closure(function.main, {_LAPTOP}).other_modules)
        results.setdefault(function.kind, []).append(_compressed(_needed(asked)))
    return {kind: round(mean(sizes) / 1e6, 1) for kind, sizes in results.items()}


def _needed(lines: Iterable[str]) -> frozenset[str]:
    """Return the distributions that these requirements need, directly or indirectly."""
    results: set[tuple[str, str]] = set()
    waiting = [(Requirement(line), "") for line in lines]
    while waiting:
        needed, extra = waiting.pop()
        if needed.marker and not needed.marker.evaluate({"extra": extra}):
            continue
        for extra in needed.extras or {""}:
            if (needed.name, extra) not in results:
                results.add((needed.name, extra))
                more = distribution(needed.name).requires or ()
                waiting += [(Requirement(line), extra) for line in more]
    return frozenset(canonicalize_name(name) for name, _ in results)


@cache
def _compressed(names: frozenset[str]) -> int:
    paths = (
        Path(str(file.locate()))
        for name in names
        for file in distribution(name).files or ()
        if "__pycache__" not in file.parts
    )
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in paths if path.is_file())
