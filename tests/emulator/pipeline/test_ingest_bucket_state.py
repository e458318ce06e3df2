"""The state of a bucket fits Firestore's documents, however large it is."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Final

import pytest

from shared.knowledge.followed_files import (
    SHARDS,
    FileState,
    FollowedFiles,
    assign_shard,
    compute_digest,
)
from tests.support.database_dump import read_all_documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

ADDRESS: Final = "gs://library/notes"


async def open_sync(ctx: Context, address: str = ADDRESS) -> FollowedFiles:
    """Return the stored state."""
    sync = FollowedFiles(ctx.database, address)
    await sync.load_digests()
    return sync


async def test_many_records_are_sharded_below_a_megabyte(
    ctx: Context,
) -> None:
    ids = [f"notes-{hashlib.sha256(b'%d' % number).hexdigest()[:32]}" for number in range(150_000)]
    shard = assign_shard("many.jsonl")
    states = {"many.jsonl": FileState(3, tuple(ids))}
    await (await open_sync(ctx)).store({shard: states})
    assert await (await open_sync(ctx)).load_objects([shard]) == states
    paths = list(await read_all_documents(ctx.database.client))
    assert sum(path.startswith("buckets") for path in paths) == 5


async def test_saved_shard_replaces_its_predecessor(ctx: Context) -> None:
    sync = await open_sync(ctx)
    shard = assign_shard("a.md")
    await sync.store({shard: {"a.md": FileState(1, ("file-a",))}})
    await sync.store({shard: {"a.md": FileState(2, ("file-a",))}})
    again = await open_sync(ctx)
    assert await again.load_objects([shard]) == {"a.md": FileState(2, ("file-a",))}
    assert {shard: compute_digest({"a.md": 2})} == await again.load_digests()
    await again.store({shard: {}})
    assert await (await open_sync(ctx)).load_digests() == {}
    remaining = await read_all_documents(ctx.database.client)
    assert len(remaining) == 1


async def test_prefixes_have_separate_state(ctx: Context) -> None:
    await (await open_sync(ctx)).store({assign_shard("a.md"): {"a.md": FileState(1, ("file-a",))}})
    other = await open_sync(ctx, "gs://library/other")
    assert await other.load_objects(range(SHARDS)) == {}


async def test_empty_shards_cost_no_reads(ctx: Context, meter: Meter) -> None:
    await (await open_sync(ctx)).load_objects(range(SHARDS))
    assert meter.documents_read == 1


async def test_object_with_omitted_records_is_read_again(
    ctx: Context,
) -> None:
    """Earlier versions omitted a record whose id another object had, and stored that."""
    sync = await open_sync(ctx)
    shard = assign_shard("a.jsonl")
    await sync.store({shard: {"a.jsonl": FileState(7, ("a",))}})
    dump = await read_all_documents(ctx.database.client)
    [path] = [name for name in dump if "/objects/" in name]
    layout, objects = json.loads(zlib.decompress(dump[path].get("data")))
    assert objects == {"a.jsonl": [7, ["a"], False]}
    stored = zlib.compress(json.dumps([layout, {"a.jsonl": [7, ["a"], True]}]).encode())
    await ctx.database.client.document(path).set({"data": stored})
    assert await (await open_sync(ctx)).load_objects([shard]) == {"a.jsonl": FileState(0, ("a",))}
