"""Connects commands to the database of the knowledge base."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.caller import Caller
    from shared.firestore.database import Database
    from shared.runtime.context import Context

    ResultT = TypeVar("ResultT")


def run_with_database(operation: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on the database, and close the connection afterwards."""
    from shared.core.meter import Meter
    from shared.core.settings import KNOWLEDGE_DATABASE, Settings
    from shared.firestore.database import Connection, Database

    settings = Settings()

    async def run_operation() -> ResultT:
        connection = Connection(settings.google_cloud_project, KNOWLEDGE_DATABASE)
        try:
            return await operation(Database(connection, Meter()))
        finally:
            await connection.aclose()

    return asyncio.run(run_operation())


def run_with_context(
    operation: Callable[[Context], Awaitable[ResultT]], caller: Caller | None = None
) -> ResultT:
    """Run an operation with a new context, and close the context's connections.

    Args:
        operation: The operation.
        caller: The user on whose behalf the operation runs. By default, nobody, as in a job.
    """
    from shared.core.caller import Caller
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.runtime.context import App

    async def run_operation() -> ResultT:
        app = App(Settings())
        try:
            return await operation(app.context(caller or Caller(), Meter()))
        finally:
            await app.aclose()

    return asyncio.run(run_operation())
