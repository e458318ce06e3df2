"""Dump all documents of a database, and write them to another."""

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
    collections = [collection async for collection in client.collections()]
    return _merged(await asyncio.gather(*map(_below_collection, collections)))


async def top_level(client: AsyncClient) -> Contents:
    """The documents of the collections at the root, a query for each collection."""
    collections = [item async for item in client.collections()]
    return {
        snapshot.reference.path: snapshot
        for collection in collections
        async for snapshot in collection.stream()
    }


async def copy_into(client: AsyncClient, contents: Contents) -> None:
    """Write the documents of another database."""
    batch = client.batch()
    for path, snapshot in contents.items():
        batch.set(client.document(path), snapshot.to_dict() or {})
    await batch.commit()


def orphans(contents: Contents) -> list[str]:
    """The documents below a missing parent, except under users."""
    paths = {path: path.rpartition("/")[0].rpartition("/")[0] for path in contents}
    return [path for path, above in paths.items() if above.count("/") > 1 and above not in contents]


async def _below_collection(collection: AsyncCollectionReference) -> Contents:
    references = [list_document async for list_document in collection.list_documents()]
    return _merged(await asyncio.gather(*map(_with_what_is_below, references)))


async def _with_what_is_below(reference: AsyncDocumentReference) -> Contents:
    snapshot = await reference.get()
    collections = [collection async for collection in reference.collections()]
    results = _merged(await asyncio.gather(*map(_below_collection, collections)))
    return ({reference.path: snapshot} if snapshot.exists else {}) | results


def _merged(parts: list[Contents]) -> Contents:
    return {path: snapshot for part in parts for path, snapshot in part.items()}
