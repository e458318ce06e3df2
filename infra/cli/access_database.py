"""Connects commands to the database `access`, with credentials and accounts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.accounts.repositories.access_store import AccessStore

ResultT = TypeVar("ResultT")


def run_with_access(operation: Callable[[AccessStore], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on the database, and close the connection afterwards."""
    from shared.accounts.repositories.access_store import AccessStore
    from shared.core.settings import ACCESS_DATABASE, Settings
    from shared.firestore.database import Connection

    settings = Settings()

    async def run_operation() -> ResultT:
        connection = Connection(settings.google_cloud_project, ACCESS_DATABASE)
        try:
            return await operation(AccessStore(connection))
        finally:
            await connection.aclose()

    return asyncio.run(run_operation())
