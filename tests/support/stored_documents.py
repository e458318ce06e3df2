"""Reads stored documents without the product's repositories, to compare them in tests."""

from typing import Any

from google.cloud.firestore import DocumentSnapshot

from shared.runtime.context import App, Context
from tests.support.jobs import make_job_context


async def read_snapshots(ctx: Context, collection: str) -> dict[str, DocumentSnapshot[Any]]:
    """Return the snapshots of a collection's documents, by id."""
    stream = ctx.database.connection.client.collection(collection).stream()
    return {snapshot.id: snapshot async for snapshot in stream}


async def read_documents(ctx: Context, collection: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a collection's documents, by id."""
    by_id = await read_snapshots(ctx, collection)
    return {name: snapshot.to_dict() or {} for name, snapshot in by_id.items()}


async def read_app_documents(app: App, collection: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a collection's documents, by id; for tests without a context."""
    return await read_documents(make_job_context(app), collection)


async def read_chunks(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by id."""
    by_id = await read_documents(ctx, "chunks")
    return {chunk_id: data for chunk_id, data in by_id.items() if "content" in data}


async def read_tombstones(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every deleted chunk whose document still exists, by id."""
    by_id = await read_documents(ctx, "chunks")
    return {chunk_id: data for chunk_id, data in by_id.items() if "deleted_at" in data}


async def read_chunks_by_text(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by its text."""
    return {data["content"]: data for data in (await read_chunks(ctx)).values()}


async def read_chunk_texts(ctx: Context) -> list[str]:
    """Return the text of every chunk that is not deleted, sorted."""
    return sorted(data["content"] for data in (await read_chunks(ctx)).values())


async def read_leased_jobs(ctx: Context) -> set[str]:
    """Return the names of the jobs that have a lease."""
    return set(await read_documents(ctx, "leases"))
