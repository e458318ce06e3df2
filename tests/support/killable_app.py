"""An app that a test can stop after some commits, as if its process had been killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.commit_hooks import WatchedApp
from tests.support.jobs import make_ample_budget, make_job_context

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from tests.support.commit_hooks import Response, Send


class Killed(BaseException):
    """The end of a killed process. As a `BaseException`, it passes all handlers of errors."""


class KillableApp(WatchedApp):
    """An app that raises `Killed` after a number of commits, and then commits nothing.

    Attributes:
        commits_left: The number of commits that still succeed, or None for all.
    """

    def __init__(self, settings: Settings, **options: Any) -> None:
        """Let all commits succeed. The `options` are keyword arguments of `App`."""
        super().__init__(settings, self._send_or_die, **options)
        self.commits_left: int | None = None

    async def _send_or_die(self, _commit: int, send: Send) -> Response:
        if self.commits_left == 0:
            raise Killed
        results = await send()
        if self.commits_left is not None:
            self.commits_left -= 1
            if self.commits_left == 0:
                raise Killed
        return results

    async def survives(self, commits: int, work: Coroutine[Any, Any, object]) -> bool:
        """Return whether `work` finishes, if it is killed after `commits` commits."""
        self.commits_left = commits
        try:
            await work
        except Killed:
            return False
        except BaseExceptionGroup as group:
            if group.split(Killed)[1]:
                raise
            return False
        finally:
            self.commits_left = None
        return True


async def count_kills(
    run: Callable[[Context, Budget], Coroutine[Any, Any, object]],
    settings: Settings,
    **options: Any,
) -> int:
    """Run a job again and again, each time killed after its first commit, until a run survives.

    Each run has a new app. The `options` are keyword arguments of `App`.
    """
    kills = 0
    while True:
        app = KillableApp(settings, **options)
        survives = await app.survives(1, run(make_job_context(app), make_ample_budget()))
        await app.aclose()
        if survives:
            return kills
        kills += 1
