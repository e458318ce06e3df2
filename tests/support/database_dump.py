"""All that stands in the database, wherever it stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.cloud.firestore import (
        AsyncClient,
        AsyncCollectionReference,
        AsyncDocumentReference,
        DocumentSnapshot,
    )

    Contents = dict[str, DocumentSnapshot[Any]]
    """Every document by its path."""


async def everything(client: AsyncClient) -> Contents:
    """Every document, also those whose parents do not exist."""
    collections = [each async for each in client.collections()]
    return _merged(await asyncio.gather(*map(_below_collection, collections)))


def orphans(contents: Contents) -> list[str]:
    """What stands below a document that does not exist; users are none."""
    paths = {path: path.rpartition("/")[0].rpartition("/")[0] for path in contents}
    return [path for path, above in paths.items() if above.count("/") > 1 and above not in contents]


async def _below_collection(collection: AsyncCollectionReference) -> Contents:
    references = [each async for each in collection.list_documents()]
    return _merged(await asyncio.gather(*map(_with_what_is_below, references)))


async def _with_what_is_below(reference: AsyncDocumentReference) -> Contents:
    snapshot = await reference.get()
    collections = [each async for each in reference.collections()]
    found = _merged(await asyncio.gather(*map(_below_collection, collections)))
    return ({reference.path: snapshot} if snapshot.exists else {}) | found


def _merged(parts: list[Contents]) -> Contents:
    return {path: snapshot for part in parts for path, snapshot in part.items()}
