"""Fixtures of all tests: a database for each test, and the app and context that use it."""

import asyncio
import gc
import os
import random
import signal
import ssl
import sys
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import certifi
import httpcore2
import hypothesis
import pytest
import structlog
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from shared.ai.embedding import Embedder
from shared.ai.local_embedding import LocalEmbedder
from shared.core import target
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support import embedded_database
from tests.support.apps import READER, Apps
from tests.support.clock import SettableClock
from tests.support.cloud_run.bundles import OWN_ENVIRONMENTS
from tests.support.commit_hooks import WatchedApp
from tests.support.emulator import ORACLE, run_emulator
from tests.support.emulator_programs import EmulatorError
from tests.support.fakes.embedder import WordEmbedder
from tests.support.monotonic_clock import MonotonicClock

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process of a test compiles all modules
sys.dont_write_bytecode = False

pytest_plugins = [
    "tests.support.unused_indexes",
    "tests.support.tool_selection",
    "tests.support.browser",
    "tests.support.accessibility",
]

# Every run tries the same examples, except slow runs with another seed. There is no deadline,
# since a busy machine exceeds the default of 200 ms.
hypothesis.settings.register_profile(
    "carrel",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "exploring", hypothesis.settings.get_profile("carrel"), derandomize=False, database=None
)
hypothesis.settings.load_profile("carrel")

_SEED: Final = 20_261_123
"""The seed of slow runs; to try another: `make test-slow KILL_SEED=7 ARGS=--hypothesis-seed=7`."""
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for the emulator: a test run is too short for Java's C2 compiler to pay off."""
_BLAS_THREADS: Final = "1"
"""The threads of OpenBLAS per worker: more would spin while the workers use all cores."""
_UNIT: Final = Path(__file__).with_name("unit")
_COMPARED: Final = Path(__file__).with_name("emulator") / "embedded_firestore"
"""The tests that compare the embedded Firestore with Google's emulator."""
_FOLDERS_THAT_SHARE_PROCESSES: Final = {"tests/e2e", "tests/e2e/access"}
"""Folders, without subfolders, whose modules share processes that start once per session."""
_SERVERS = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run choose what it uses as Firestore."""
    parser.addoption(
        "--database",
        choices=["embedded", "emulator"],
        default="embedded",
        help="what tests use as Firestore; Google's emulator must be installed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Start what serves databases to the whole run; parallel workers inherit the addresses.

    Beside the embedded Firestore, Google's emulator is started if it is installed and tests that
    compare the two are selected. A run of unit tests alone starts nothing.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A background job of a shell ignores Ctrl-C, and so would the processes that tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _is_slow_run(config):
        hypothesis.settings.load_profile("exploring")
    if config.option.database == "embedded":
        embedded_database.connect_in_process()
    if hasattr(config, "workerinput"):
        return
    if config.option.update_snapshots and os.environ.get("CI"):
        raise pytest.UsageError("CI compares with snapshots. Update them on your machine.")
    if _is_slow_run(config):
        os.environ.setdefault("KILL_SEED", str(_SEED))
        os.environ[OWN_ENVIRONMENTS] = "1"
        config.option.hypothesis_seed = config.option.hypothesis_seed or _SEED
    os.environ.setdefault("OPENBLAS_NUM_THREADS", _BLAS_THREADS)
    if not all(path.is_relative_to(_UNIT) for path in _list_paths(config)):
        _start_servers(config)


def _start_servers(config: pytest.Config) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", _JAVA_OPTIONS)
    stack = config.stash[_SERVERS] = ExitStack()
    is_needed = config.option.database == "emulator"
    if is_needed or _compares_with_emulator(config):
        try:
            os.environ[ORACLE] = stack.enter_context(run_emulator())
        except EmulatorError as error:
            if is_needed:
                raise pytest.UsageError(str(error)) from error
    if is_needed:
        os.environ["FIRESTORE_EMULATOR_HOST"] = os.environ[ORACLE]
    else:
        address = stack.enter_context(embedded_database.serve_index_files())
        os.environ["FIRESTORE_EMULATOR_HOST"] = address


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the seeds of random kills and examples, with which a run can be repeated."""
    if not _is_slow_run(config):
        return []
    seed = config.option.hypothesis_seed
    return [f"to repeat it: KILL_SEED={os.environ['KILL_SEED']} ARGS=--hypothesis-seed={seed}"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Send each module to one worker, and modules that share processes to the same one.

    The `xdist_group` mark has no effect: xdist 3.8 appends groups to ids that pytest 9.2 ignores.
    """
    return _ByModule(config, log)


class _ByModule(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        folder = module.rpartition("/")[0]
        return folder if folder in _FOLDERS_THAT_SHARE_PROCESSES else module


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Pause the garbage collector while tests are collected, then freeze them and let it run less.

    Nearly everything that is made until then stays. This saves 10 % of a run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what serves databases."""
    if _SERVERS in config.stash:
        config.stash[_SERVERS].close()


def _is_slow_run(config: pytest.Config) -> bool:
    """Return whether this is a run of slow tests."""
    return bool(config.option.markexpr == "slow")


def _list_paths(config: pytest.Config) -> list[Path]:
    """Return the folders and files whose tests this run selects."""
    folder = config.invocation_params.dir
    return [(folder / argument.partition("::")[0]).resolve() for argument in config.args]


def _compares_with_emulator(config: pytest.Config) -> bool:
    return any(
        path.is_relative_to(_COMPARED) or _COMPARED.is_relative_to(path)
        for path in _list_paths(config)
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, which Firestore's client needs."""
    return "asyncio"


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the variables, the database and the log of this process: commands choose them."""
    before, log = dict(os.environ), structlog.get_config()
    monkeypatch.setattr(target, "_chosen", target._chosen)  # noqa: SLF001 - a test's own choice
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
    structlog.configure(**log)


@pytest.fixture(scope="session", autouse=True)
def single_ca_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one CA certificate, since each Google client would load the bundle three times.

    Loading it takes 30 ms. Processes that tests start use the machine's certificates.
    """
    end = "-----END CERTIFICATE-----\n"
    file = tmp_path_factory.mktemp("certifi") / "one.pem"
    file.write_text(certifi.contents().partition(end)[0] + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(file))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Let HTTP clients share a TLS context, because each would load all certificates for 60 ms."""
    make_context = httpcore2.default_ssl_context

    @cache
    def get_context(_file: str | None) -> ssl.SSLContext:
        return make_context()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            httpcore2,
            "default_ssl_context",
            lambda **_: get_context(os.environ.get("SSL_CERT_FILE")),
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def closed_databases() -> Iterator[None]:
    """Close each module's databases, since one holds eight files and two threads open.

    With those of thousands of tests, each call and above all each fork would take longer.
    """
    yield
    embedded_database.close_in_process()


@pytest.fixture(scope="session", autouse=True)
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:  # noqa: ARG001 - requests the fixture
    """Keep one loop for all tests: gRPC's poller calls back late, and a closed loop is an error."""
    yield  # noqa: PT022 - only a fixture that yields holds the loop


@pytest.fixture
async def monotonic(monkeypatch: pytest.MonkeyPatch) -> MonotonicClock:
    """The event loop's clock, which a test can advance."""
    return MonotonicClock(monkeypatch)


@pytest.fixture
def instant_sleep(monotonic: MonotonicClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `asyncio.sleep` and `time.sleep` advance `monotonic` and return at once."""
    monkeypatch.setattr(asyncio, "sleep", monotonic.sleep)
    monkeypatch.setattr(time, "sleep", monotonic.advance)


@pytest.fixture
def kill_generator() -> random.Random:
    """The random generator that chooses the moments of kills, seeded by `KILL_SEED`."""
    return random.Random(int(os.environ.get("KILL_SEED", "0")))  # noqa: S311 - no secret


@pytest.fixture
def project() -> str:
    """A unique Google Cloud project, and so an empty database."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def settings(project: str) -> Settings:
    """The settings of a local deployment, with the test's own database."""
    return Settings(google_cloud_project=project)


@pytest.fixture(scope="session")
def local_embedder() -> LocalEmbedder:
    """The real local embedder, loaded once."""
    return LocalEmbedder()


@pytest.fixture
def embedder() -> Embedder:
    """An embedder without a model, which a test can make fail."""
    return WordEmbedder()


@pytest.fixture
def clock() -> SettableClock:
    """The clock that `app` uses: the system's time until a test sets it."""
    return SettableClock(running=True)


@pytest.fixture
async def apps(settings: Settings) -> AsyncIterator[Apps]:
    """Opens apps with the test's settings, on its database, and closes them after the test."""
    opened = Apps(settings)
    yield opened
    await opened.aclose()


@pytest.fixture
def app(apps: Apps, embedder: Embedder, clock: SettableClock) -> WatchedApp:
    """The app with the test's settings, clock and embedder."""
    return apps(clock=clock, embedder=embedder)


@pytest.fixture
def meter() -> Meter:
    """The meter that `ctx` uses."""
    return Meter()


@pytest.fixture
def ctx(app: App, meter: Meter) -> Context:
    """The context of one call by the user "reader"."""
    return app.context(READER, meter)
