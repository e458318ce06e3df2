"""The only room that knows Firestore: one file per collection."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import cached_property
from typing import Any, Final

from google.cloud.firestore import AsyncClient

from shared.store.database import Meter

_AFTERMATH: Final = 0.005
"""Seconds."""


class Connection:
    """What a process keeps open: the client, and what it has learned about the database.

    Attributes:
        caches: What repositories remember for all calls of the process, by repository.
    """

    def __init__(self, project: str, database: str) -> None:
        """Connect on first use; the client belongs to the event loop that runs then."""
        self._project = project
        self._database = database
        self.caches: defaultdict[str, dict[Any, Any]] = defaultdict(dict)

    @cached_property
    def client(self) -> AsyncClient:
        """The Firestore client."""
        return AsyncClient(project=self._project, database=self._database)

    async def aclose(self) -> None:
        """Close the client, if it was ever used."""
        if "client" in self.__dict__:
            # The async client has no public close; its channel must be closed on its own loop, and
            # what gRPC still has to tell that loop must find it open.
            await self.client._firestore_api.transport.close()  # noqa: SLF001
            await asyncio.sleep(_AFTERMATH)


__all__ = ["Connection", "Meter"]
