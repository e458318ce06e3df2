"""What costs are measured of functions: the gateway's share of a call, a start, an image."""

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

from benchmarks.cold_start import importing
from benchmarks.costs.workload import operations
from functions.gateway.access import Access
from functions.gateway.auth.callers import Credential
from functions.gateway.catalog import Declaration
from infra.build.discovery import tools
from infra.build.functions import functions
from infra.build.imports import import_closure
from infra.build.requirements import requirements_of
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
"""CallPipeline before those that are measured."""
_LAPTOP: Final = "shared.ai.local_embedding"
"""The one provider that no bundle of the cloud holds."""


class Answering:
    """A dispatcher that answers at once."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:  # noqa: ARG002 - the same for all
        """Answer with nothing."""
        return CallAnswer(result={})

    async def health(self) -> dict[str, str]:
        """Depend on nothing."""
        return {}


async def gateway_operations() -> Figures:
    """What the gateway reads and writes for a call of somebody who comes with a token.

    CallPipeline lie so far apart that each takes a new share of its caller's limit.
    """
    secrets = (SecretStr(SECRET),)
    settings = Settings(google_cloud_project="bench-costs-access", access_secrets=secrets)
    found: dict[str, Mapping[str, int]] = {}
    for name in ("search_kb", "add_task"):
        access = Access(settings)
        token = access.tokens.issue(
            user_id="reader", client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
        )
        tool = next(tool for tool in tools() if tool.name == name)
        declared = Declaration.model_validate(tool.declaration())
        with operations(settings.access_database) as seen:
            visitor = await access.callers.identify(Credential(token), "127.0.0.1")
            await access.pipeline(Answering()).call(declared, {"idempotency_key": "k"}, visitor)
        found[name] = seen
        await access.aclose()
    reading, writing = found["search_kb"], found["add_task"]
    return {
        "reads": reading["read"],
        "writes": reading["written"],
        "writes_of_a_write": writing["written"] - reading["written"],
    }


def gateway_seconds(log: Path, calls: int = 200) -> Figures:
    """How long the gateway takes for a call that does nothing, and what of a processor."""
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
    """Processor seconds that the processes of a group have taken so far; on Linux."""
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
    """Processor seconds until a function of each kind is imported."""
    names = {
        "gateway": ["gateway"],
        "tool": ["search_kb", "get_chunk", "add_task"],
        "job": ["embed", "index", "ingest_materials"],
    }
    programs = {function.name: function.main for function in functions()}
    found: Figures = {}
    for kind, measured in names.items():
        taken = [
            await importing(f"{programs[name]}\nimport os; os._exit(0)")()
            for name in measured
            for _ in range(rounds)
        ]
        found[kind] = round(median(taken), 2)
    return found


def image_megabytes() -> Figures:
    """Megabytes of what is installed for a function of each kind, each file compressed by itself.

    Without the standard library and the system, which all images have in common.
    """
    found: dict[str, list[int]] = {}
    for function in functions():
        asked = requirements_of(import_closure(function.main, {_LAPTOP}).others)
        found.setdefault(function.kind, []).append(_compressed(_needed(asked)))
    return {kind: round(mean(sizes) / 1e6, 1) for kind, sizes in found.items()}


def _needed(lines: Iterable[str]) -> frozenset[str]:
    """The names of the distributions that are needed for these lines of `pyproject.toml`."""
    found: set[tuple[str, str]] = set()
    waiting = [(Requirement(line), "") for line in lines]
    while waiting:
        needed, extra = waiting.pop()
        if needed.marker and not needed.marker.evaluate({"extra": extra}):
            continue
        for each in needed.extras or {""}:
            if (needed.name, each) not in found:
                found.add((needed.name, each))
                more = distribution(needed.name).requires or ()
                waiting += [(Requirement(line), each) for line in more]
    return frozenset(canonicalize_name(name) for name, _ in found)


@cache
def _compressed(names: frozenset[str]) -> int:
    paths = (
        Path(str(file.locate()))
        for name in names
        for file in distribution(name).files or ()
        if "__pycache__" not in file.parts
    )
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in paths if path.is_file())
