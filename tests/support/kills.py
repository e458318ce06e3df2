"""Kills work at each of its commits, repeats it, and compares the result with an undisturbed run.

Work is a run of a job or a call of a tool. Its process ends at a commit in one of two ways: the
commit is not applied, and nothing more happens; or it is applied, but its answer is lost, and with
it the connection. Later, another process repeats the work on the same database.
"""

import hashlib
import itertools
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.firestore_v1.vector import Vector

from infra.local.embedded_firestore.copies import copy_files
from shared.core.errors import Unavailable
from shared.core.settings import Settings
from shared.firestore.queries import Query
from shared.runtime.context import App
from tests.support.clock import NOON
from tests.support.commit_hooks import CommitHook, Response, Send, WatchedApp, send_commit
from tests.support.database_state import State, describe_differences
from tests.support.embedded_database import get_run_folder
from tests.support.fakes.embedder import WordEmbedder
from tests.support.killable_app import Killed

Work = Callable[["App"], Awaitable[object]]
"""Does the work once. What it returns is compared, too."""
Case = Callable[["Base"], AbstractAsyncContextManager[Work]]
"""Fills a base, and yields the work. What the work uses is open until the end of the block."""

_MINUTES_BETWEEN: Final = 31
"""The time until the work is repeated."""
MAX_COMMITS: Final = 40
"""Work with more commits is larger than a test needs."""
_DATABASE_FILE: Final = "default.sqlite"
_PATHS: Final = "SELECT path FROM collections"
_DOCUMENTS: Final = """
SELECT path, documents.name, CASE path WHEN 'leases' THEN '' ELSE body END
FROM documents JOIN collections ON collections.id = collection
ORDER BY path, documents.name
"""
_NOT_COMPARED: Final = {"runs"}
"""Collections that record what happened."""
_MIN_TIMESTAMP: Final = 10**15
"""A greater number is a time, in microseconds since 1970."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_DECIMALS: Final = 6


class KillMode(StrEnum):
    """How a process ends at a commit."""

    NOT_APPLIED = "not applied"
    ANSWER_LOST = "applied, but its answer lost"


class Kill:
    """A hook that ends the work of a process at a commit. No later commit is sent.

    Attributes:
        is_done: Whether the commit was reached.
    """

    def __init__(self, commit: int, mode: KillMode) -> None:
        """End the work at the commit with this number."""
        self._commit, self._mode = commit, mode
        self.is_done = False

    async def __call__(self, commit: int, send: Send) -> Response:
        """Send a commit, or end the work."""
        if commit < self._commit:
            return await send()
        is_target = not self.is_done
        self.is_done = True
        if self._mode is KillMode.NOT_APPLIED:
            raise Killed
        if is_target:
            await send()
        raise ServiceUnavailable("The connection is lost.")


@dataclass(kw_only=True)
class Base:
    """A database that a case fills, and what apps need to use it.

    Attributes:
        project: The project of the database.
        folder: A folder for files.
        patch: What it sets is undone at the end of the test.
        settings: Further fields of the settings.
        options: The keyword arguments of `App`.
        start: When the work is begun.
        uncompared: Fields of which only the presence is compared, because they name an attempt, as
            `run` does, or say what it did.
        version: The part of a document's id that each attempt increments.
        reset: Brings services back to where they were when the base was filled; None if there are
            none that work changes.
        check: Asserts what holds right after a kill, and writes nothing that is compared.
    """

    project: str
    folder: Path
    patch: pytest.MonkeyPatch
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=lambda: {"embedder": WordEmbedder()})
    start: datetime = NOON + timedelta(days=100)
    uncompared: set[str] = field(default_factory=lambda: {"run"})
    version: re.Pattern[str] | None = None
    reset: Callable[[], None] | None = None
    check: Callable[[App], Awaitable[None]] | None = None

    @asynccontextmanager
    async def open(
        self, project: str = "", hook: CommitHook = send_commit, **before: float
    ) -> AsyncIterator[WatchedApp]:
        """Open an app, by default on the base itself, some time before the start."""
        settings = Settings(google_cloud_project=project or self.project, **self.settings)
        now = self.start - timedelta(**before)
        app = WatchedApp(settings, hook, **{"clock": lambda: now} | self.options)
        assert app.connection.client  # which creates the file, even if nothing is written
        yield app
        await app.aclose()

    @asynccontextmanager
    async def open_process(
        self, number: int, project: str, hook: CommitHook = send_commit
    ) -> AsyncIterator[WatchedApp]:
        """Open an app on a copy. Its random ids depend only on the number of the process.

        The second process works when all leases of the first have expired.
        """
        numbers = itertools.count()

        def make_token(size: int = 16) -> str:
            return hashlib.sha256(f"{number} {next(numbers)}".encode()).hexdigest()[: 2 * size]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(secrets, "token_hex", make_token)
            async with self.open(project, hook, minutes=-_MINUTES_BETWEEN * number) as app:
                yield app

    def simplify(self, value: Any) -> Any:
        """Return a value as JSON, with times in whole days since the start and rounded numbers."""
        match value:
            case dict():
                simple: Any = {
                    name: item is not None if name in self.uncompared else self.simplify(item)
                    for name, item in sorted(value.items())
                }
            case Vector() | list() | tuple():
                simple = [self.simplify(item) for item in value]
            case datetime():
                simple = f"{(value - self.start).days} days"
            case int() if value > _MIN_TIMESTAMP:
                simple = self.simplify(datetime.fromtimestamp(value / 1e6, UTC))
            case str() if value.startswith("{"):
                simple = self.simplify(json.loads(value))
            case str() if _TIME.fullmatch(value):
                simple = self.simplify(datetime.fromisoformat(value))
            case float():
                simple = round(value, _DECIMALS)
            case bytes():
                simple = value.hex()
            case _:
                simple = value
        return simple

    def copy(self, name: str) -> str:
        """Copy the database, and reset the services; return the project of the copy."""
        if self.reset:
            self.reset()
        project = f"{self.project}-{name}"
        _get_file(project).parent.mkdir(mode=0o700)
        copy_files([_get_file(self.project)], _get_file(project).parent)
        return project


async def assert_repeatable(case: Case, base: Base) -> object:
    """Assert that work killed at any of its commits ends as it does undisturbed, if repeated.

    It may end as one process or the other does, since their random ids differ. What is stored when
    an answer is lost is nearly always what is stored if the next commit is not applied. Work is
    repeated only once for both, unless it also changes services.

    Returns:
        The answer of undisturbed work.
    """
    async with case(base) as work:
        undisturbed_states: list[State] = []
        for process in range(2):
            async with base.open_process(process, base.copy(f"undisturbed-{process}")) as app:
                undisturbed_states.append(await _work(base, app, work))
                count = app.commits
        assert 0 < count <= MAX_COMMITS
        repeated: list[list[tuple[Any, ...]]] = []
        for commit, mode in itertools.product(range(1, count + 1), KillMode):
            kill, project = Kill(commit, mode), base.copy(f"{mode.name[0].lower()}-{commit}")
            async with base.open_process(0, project, kill) as app:
                await _run_until_killed(app, work)
            assert kill.is_done, f"The work ended before commit {commit} of {count}."
            stored = _select(project, _DOCUMENTS)
            if stored in repeated and not base.reset:
                continue
            repeated.append(stored)
            if base.check:
                async with base.open_process(1, project) as app:
                    await base.check(app)
            async with base.open_process(1, project) as app:
                state = await _work(base, app, work)
            differences = [describe_differences(before, state) for before in undisturbed_states]
            place = f"commit {commit} of {count}: {mode}"
            assert not all(differences), f"{place}\n{min(differences, key=len)}"
    return undisturbed_states[0][""]["answer"][""]


async def _work(base: Base, app: App, work: Work) -> State:
    """Do the work; return what is stored afterwards, and its answer as if it were a document."""
    answer = await work(app)
    return {"": {"answer": {"": base.simplify(answer)}}} | await _read_state(base, app)


async def _run_until_killed(app: App, work: Work) -> None:
    ends = (Killed, Unavailable)
    try:
        await work(app)
    except ends:
        pass
    except BaseExceptionGroup as group:
        if group.split(ends)[1]:
            raise


async def _read_state(base: Base, app: App) -> State:
    """Return all documents by collection and id."""
    state: State = {}
    paths = [path for (path,) in _select(app.settings.google_cloud_project, _PATHS)]
    for path in sorted(set(paths) - _NOT_COMPARED):
        documents = state[path] = {}
        for document in await app.connection.run(Query(path)):
            name = base.version.sub("*", document.id) if base.version else document.id
            # Two versions at once are a difference.
            documents[document.id if name in documents else name] = base.simplify(document.fields)
    return state


def _select(project: str, query: str) -> list[tuple[Any, ...]]:
    """Query a database's file with the library that also writes it: another breaks its locks."""
    with closing(apsw.Connection(str(_get_file(project)), flags=apsw.SQLITE_OPEN_READONLY)) as file:
        return list(file.execute(query))


def _get_file(project: str) -> Path:
    folder = get_run_folder()
    if folder is None:
        pytest.skip("It copies the files of embedded databases.")
    return folder / project / _DATABASE_FILE
