"""Copies all documents from one database to another, and finds orphans among them."""

import asyncio
import re
from collections.abc import Collection
from typing import Any, Final

from google.cloud.firestore import (
    AsyncClient,
    AsyncCollectionReference,
    AsyncDocumentReference,
    DocumentSnapshot,
)

Contents = dict[str, DocumentSnapshot[Any]]
"""Documents by path, such as `users/anna/tasks/1`."""

_FLAT_COLLECTIONS: Final = {"lexicon", "facets", "trace_lexicon", "trace_facets"}
"""Large collections whose documents have no subcollections, so that they need no query each."""


async def read_all_documents(client: AsyncClient) -> Contents:
    """Return all documents, including those whose parents do not exist."""
    collections = [collection async for collection in client.collections()]
    return _merge(await asyncio.gather(*map(_read_collection, collections)))


async def read_root_documents(client: AsyncClient) -> Contents:
    """Return the documents of the root collections, with one query per collection."""
    collections = [collection async for collection in client.collections()]
    return {
        snapshot.reference.path: snapshot
        for collection in collections
        async for snapshot in collection.stream()
    }


async def write_documents(client: AsyncClient, contents: Contents) -> None:
    """Write documents, which were read from another database, in one commit."""
    batch = client.batch()
    for path, snapshot in contents.items():
        batch.set(client.document(path), snapshot.to_dict() or {})
    await batch.commit()


def find_orphans(contents: Contents) -> list[str]:
    """Return the paths of documents in subcollections whose parent document is missing.

    Documents in `users/{user_id}/...` are not orphans, because `users/{user_id}` never exists.
    """
    parents = {path: path.rpartition("/")[0].rpartition("/")[0] for path in contents}
    return [
        path
        for path, parent in parents.items()
        if "/" in parent and not re.fullmatch("users/[^/]+", parent) and parent not in contents
    ]


async def _read_collection(collection: AsyncCollectionReference) -> Contents:
    if collection.id in _FLAT_COLLECTIONS:
        return {snapshot.reference.path: snapshot async for snapshot in collection.stream()}
    references = [reference async for reference in collection.list_documents()]
    return _merge(await asyncio.gather(*map(_read_subtree, references)))


async def _read_subtree(reference: AsyncDocumentReference) -> Contents:
    snapshot = await reference.get()
    collections = [collection async for collection in reference.collections()]
    descendants = _merge(await asyncio.gather(*map(_read_collection, collections)))
    return ({reference.path: snapshot} if snapshot.exists else {}) | descendants


def _merge(parts: list[Contents]) -> Contents:
    return {path: snapshot for part in parts for path, snapshot in part.items()}


def summarize(contents: Contents, ignored: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Return what documents say, to compare two states.

    Stored answers and empty postings are left out, and how many entries postings ever had.

    Args:
        contents: The documents.
        ignored: The names of fields to leave out.
    """
    fields = {path: snapshot.to_dict() or {} for path, snapshot in contents.items()}
    return {
        path: {
            name: value for name, value in data.items() if name != "held" and name not in ignored
        }
        for path, data in fields.items()
        if "/replays/" not in path and data.get("df") != 0
    }
