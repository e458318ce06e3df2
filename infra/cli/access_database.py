"""Connects commands to the database `access`, with credentials and accounts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from infra.local import local_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.accounts.repositories.access_store import AccessStore
    from shared.core.settings import Settings

ResultT = TypeVar("ResultT")


def read_access(read: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """Run `read`, which changes nothing, on the database, and return its result."""
    from shared.core.settings import Settings

    with local_database.connected_database():
        return asyncio.run(_run_with_store(read, Settings()))


def write_access(write: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """Run `write` on the database, and return its result. A local database is saved to disk."""
    from shared.core.settings import Settings

    with local_database.connected_database():
        result = asyncio.run(_run_with_store(write, Settings()))
        local_database.save_now()
    return result


async def _run_with_store(
    operation: Callable[[AccessStore], Awaitable[ResultT]], settings: Settings
) -> ResultT:
    """Run an operation with a new connection, and close the connection afterwards."""
    from shared.accounts.repositories.access_store import AccessStore
    from shared.firestore.database import Connection

    connection = Connection(settings.google_cloud_project, settings.access_database)
    try:
        return await operation(AccessStore(connection))
    finally:
        await connection.aclose()
