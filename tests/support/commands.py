"""Runs the command `carrel` in the test's process, and work on the database that it uses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from infra.cli.main import main
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.stored_documents import read_documents

ResultT = TypeVar("ResultT")


def run_carrel(*arguments: str, answer: str | None = None) -> Result:
    """Run the command, and answer its question."""
    return CliRunner().invoke(main, arguments, input=answer)


def expect_error(*arguments: str, code: int = 1) -> str:
    """Run a command that fails, and return its error."""
    result = run_carrel(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "Traceback" not in result.stderr
    return result.stderr


def run_with_app(
    work: Callable[[App], Awaitable[ResultT]], settings: Settings | None = None, **options: Any
) -> ResultT:
    """Call an asynchronous function with an app; return its result.

    The `options` are keyword arguments of `App`.
    """

    async def run_work() -> ResultT:
        app = App(settings or Settings(), **options)
        try:
            return await work(app)
        finally:
            await app.aclose()

    return asyncio.run(run_work())


def run_in_database(work: Callable[[Context], Awaitable[ResultT]], **settings: Any) -> ResultT:
    """Call an asynchronous function with a context; return its result."""
    return run_with_app(lambda app: work(app.context(Caller(), Meter())), Settings(**settings))


def read_stored(collection: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a collection's documents, by id."""
    return run_in_database(lambda ctx: read_documents(ctx, collection))
