"""Work on the database of credentials and accounts, for the commands that need it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from infra.local import local_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.accounts.repositories.access_store import AccessStore
    from shared.core.settings import Settings

ResultT = TypeVar("ResultT")


def look(read: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """What `read` finds in the database."""
    from shared.core.settings import Settings

    with local_database.knowledge_base():
        return asyncio.run(_with_store(read, Settings()))


def change(write: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """Let `write` change the database; locally, it is on disk afterwards."""
    from shared.core.settings import Settings

    with local_database.knowledge_base():
        result = asyncio.run(_with_store(write, Settings()))
        local_database.keep()
    return result


async def _with_store(
    work: Callable[[AccessStore], Awaitable[ResultT]], settings: Settings
) -> ResultT:
    from shared.accounts.repositories.access_store import AccessStore
    from shared.firestore.database import Connection

    connection = Connection(settings.google_cloud_project, settings.access_database)
    try:
        return await work(AccessStore(connection))
    finally:
        await connection.aclose()
