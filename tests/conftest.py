"""What every test may ask for: a database of its own, and the capabilities built on it."""

from __future__ import annotations

import asyncio
import gc
import os
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest

from infra.local.emulator import EmulatorError, run_emulator
from shared.ai.local_embedding import LocalEmbedder
from shared.caller import Caller
from shared.deps import Backend
from shared.settings import Settings
from shared.store import Meter
from tests.support.monotonic_clock import Monotonic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.deps import Deps

pytest_plugins = ["tests.support.index_proof", "tests.support.browser"]

# An example may take as long as it does: on a busy machine 200 ms are soon over.
hypothesis.settings.register_profile(
    "no-clock", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("no-clock")

_UNIT: Final = Path(__file__).with_name("unit")
_EMULATOR = pytest.StashKey[ExitStack]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Start one emulator for the whole run; parallel workers inherit its address.

    A run of unit tests alone starts none.
    """
    if hasattr(config, "workerinput") or _only_unit_tests(config):
        return
    stack = config.stash[_EMULATOR] = ExitStack()
    try:
        os.environ["FIRESTORE_EMULATOR_HOST"] = stack.enter_context(run_emulator())
    except EmulatorError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish() -> None:
    """Leave what was collected out of garbage collections, which tests of sockets ask for."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the emulator."""
    if _EMULATOR in config.stash:
        config.stash[_EMULATOR].close()


def _only_unit_tests(config: pytest.Config) -> bool:
    folder = config.invocation_params.dir
    paths = [(folder / argument.partition("::")[0]).resolve() for argument in config.args]
    return bool(paths) and all(path.is_relative_to(_UNIT) for path in paths)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, which Firestore's client needs."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:  # noqa: ARG001 - asks for it
    """Keep one loop for all tests: gRPC's poller calls back late, and a closed loop is an error."""
    yield  # noqa: PT022 - only a fixture that yields holds the loop


@pytest.fixture
async def monotonic(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    """The event loop's clock, to be turned."""
    return Monotonic(monkeypatch)


@pytest.fixture
def sleepless(monotonic: Monotonic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sleeps turns the clock, and goes on at once."""
    monkeypatch.setattr(asyncio, "sleep", monotonic.sleep)


@pytest.fixture
def project() -> str:
    """A project that nobody else uses: an empty database."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def settings(project: str) -> Settings:
    """The settings of a laptop, with a database of one's own."""
    return Settings(google_cloud_project=project)


@pytest.fixture(scope="session")
def embedder() -> LocalEmbedder:
    """The real local embedder, loaded once."""
    return LocalEmbedder()


@pytest.fixture
async def backend(settings: Settings, embedder: LocalEmbedder) -> AsyncIterator[Backend]:
    """What a process opens once."""
    opened = Backend(settings, embedder=embedder)
    yield opened
    await opened.aclose()


@pytest.fixture
def meter() -> Meter:
    """Counts what `deps` reads and writes."""
    return Meter()


@pytest.fixture
def deps(backend: Backend, meter: Meter) -> Deps:
    """The capabilities of one call."""
    return backend.deps(Caller.of("reader"), meter)
