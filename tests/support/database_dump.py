"""All that stands in a database, and how to write it into another."""

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


async def top_level(client: AsyncClient) -> Contents:
    """The documents of the collections at the root, a query for each collection."""
    collections = [each async for each in client.collections()]
    return {
        snapshot.reference.path: snapshot
        for collection in collections
        async for snapshot in collection.stream()
    }


async def copy_into(client: AsyncClient, contents: Contents) -> None:
    """Write what stood in another database."""
    batch = client.batch()
    for path, snapshot in contents.items():
        batch.set(client.document(path), snapshot.to_dict() or {})
    await batch.commit()


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
