"""Connects commands to the databases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.accounts.repositories.access_store import AccessStore
    from shared.core.caller import Caller
    from shared.firestore.connection import Connection
    from shared.firestore.database import Database
    from shared.runtime.context import Context

    ResultT = TypeVar("ResultT")


def run_with_database(operation: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on the knowledge base, and close the connection afterwards."""
    from shared.core.meter import Meter
    from shared.core.settings import KNOWLEDGE_DATABASE
    from shared.firestore.database import Database

    return _run(KNOWLEDGE_DATABASE, lambda connection: operation(Database(connection, Meter())))


def run_with_access(operation: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on credentials and accounts, and close the connection afterwards."""
    from shared.accounts.repositories.access_store import AccessStore
    from shared.core.settings import ACCESS_DATABASE

    return _run(ACCESS_DATABASE, lambda connection: operation(AccessStore(connection)))


def _run(database: str, operation: Callable[[Connection], Awaitable[ResultT]]) -> ResultT:
    from shared.core.settings import Settings
    from shared.firestore.connection import Connection

    async def run_operation() -> ResultT:
        connection = Connection(Settings().google_cloud_project, database)
        try:
            return await operation(connection)
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
