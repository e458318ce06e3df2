"""Opens the apps of a test: each with a database of its own, or several on one."""

import uuid
from datetime import datetime
from typing import Any

from shared.ai.embedding import Embedder
from shared.ai.generation import Generator
from shared.core.caller import Caller
from shared.core.dates import Clock
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import Context
from tests.support.clock import SettableClock
from tests.support.commit_hooks import CommitHook, WatchedApp, send_commit
from tests.support.fakes.embedder import WordEmbedder

READER = Caller.of("reader")
"""The caller in whose name tests call tools that read."""


class Apps:
    """Opens apps, and closes all of them when the test, or the module, ends."""

    def __init__(self, settings: Settings | None = None) -> None:
        """Open apps with these settings; without them, each on an empty database."""
        self._settings = settings
        self._opened: list[WatchedApp] = []

    def __call__(
        self,
        hook: CommitHook = send_commit,
        *,
        clock: Clock | datetime | None = None,
        embedder: Embedder | None = None,
        generator: Generator | None = None,
        project: str | None = None,
        **settings: Any,
    ) -> WatchedApp:
        """Open an app.

        Args:
            hook: Is called in place of each commit.
            clock: A clock, or the time at which one stands. The default follows the system's
                until a test sets it.
            embedder: By default one without a model, which compares words.
            generator: By default none.
            project: The project of the database, in place of the test's.
            settings: Fields of `Settings`, in place of the test's.
        """
        app = WatchedApp(
            Settings(**self._merge_settings(project) | settings),
            hook,
            clock=_make_clock(clock),
            embedder=embedder or WordEmbedder(),
            generator=generator,
        )
        self._opened.append(app)
        return app

    def context(self, now: datetime | None = None) -> Context:
        """Open an app whose clock stands at `now`, or at this second; return a reader's context."""
        return self(clock=SettableClock(now)).context(READER, Meter())

    async def aclose(self) -> None:
        """Close all apps."""
        for app in self._opened:
            await app.aclose()

    def _merge_settings(self, project: str | None) -> dict[str, Any]:
        base = self._settings or Settings(google_cloud_project=f"test-{uuid.uuid4().hex[:16]}")
        fields = {name: getattr(base, name) for name in base.model_fields_set}
        if project:
            fields["google_cloud_project"] = project
        return fields


def _make_clock(clock: Clock | datetime | None) -> Clock:
    if clock is None:
        return SettableClock(running=True)
    return SettableClock(clock) if isinstance(clock, datetime) else clock
