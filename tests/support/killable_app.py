"""An app that a test can stop after some commits, as if its process had been killed."""

from collections.abc import Coroutine
from typing import Any

from shared.core.settings import Settings
from tests.support.commit_hooks import Response, Send, WatchedApp


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
