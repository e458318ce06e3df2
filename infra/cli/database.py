"""Connects commands to the knowledge base."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.firestore.database import Database

    ResultT = TypeVar("ResultT")


def run_with_database(operation: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on the database, and close the connection afterwards."""
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.firestore.database import Connection, Database

    settings = Settings()

    async def run_operation() -> ResultT:
        connection = Connection(settings.google_cloud_project, settings.firestore_database)
        try:
            return await operation(Database(connection, Meter()))
        finally:
            await connection.aclose()

    return asyncio.run(run_operation())
