"""The state of a followed bucket, which is what was read of its objects, fits into documents.

The objects are distributed over shards, each stored in one or more documents.
"""

import hashlib
from typing import Final

from shared.core.meter import Meter
from shared.knowledge.followed_files import (
    SHARDS,
    FileState,
    FollowedFiles,
    assign_shard,
    compute_digest,
)
from shared.runtime.context import Context
from tests.support.database_dump import read_all_documents

ADDRESS: Final = "gs://library/notes"


async def open_state(ctx: Context, address: str = ADDRESS) -> FollowedFiles:
    """Return the stored state of a bucket, with the digests of its shards loaded."""
    state = FollowedFiles(ctx.database, address)
    await state.load_digests()
    return state


async def test_many_records_are_sharded_below_a_megabyte(ctx: Context) -> None:
    ids = [f"notes-{hashlib.sha256(b'%d' % number).hexdigest()[:32]}" for number in range(150_000)]
    shard = assign_shard("many.jsonl")
    states = {"many.jsonl": FileState(3, tuple(ids))}
    await (await open_state(ctx)).store({shard: states})
    assert await (await open_state(ctx)).load_objects([shard]) == states
    paths = await read_all_documents(ctx.database.connection.client)
    assert len([path for path in paths if path.startswith("buckets")]) == 5


async def test_a_stored_shard_replaces_its_former_version(ctx: Context) -> None:
    state = await open_state(ctx)
    shard = assign_shard("a.md")

    await state.store({shard: {"a.md": FileState(1, ("file-a",))}})
    await state.store({shard: {"a.md": FileState(2, ("file-a",))}})
    state = await open_state(ctx)
    assert await state.load_objects([shard]) == {"a.md": FileState(2, ("file-a",))}
    assert await state.load_digests() == {shard: compute_digest({"a.md": 2})}

    await state.store({shard: {}})
    assert await (await open_state(ctx)).load_digests() == {}
    assert len(await read_all_documents(ctx.database.connection.client)) == 1  # the main document


async def test_prefixes_have_states_of_their_own(ctx: Context, meter: Meter) -> None:
    """Without a state, only the main document is read."""
    await (await open_state(ctx)).store({assign_shard("a.md"): {"a.md": FileState(1, ("file-a",))}})
    reads_before = meter.documents_read
    other_state = await open_state(ctx, "gs://library/other")
    assert await other_state.load_objects(range(SHARDS)) == {}
    assert meter.documents_read - reads_before == 1
