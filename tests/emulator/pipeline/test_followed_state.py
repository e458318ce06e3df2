"""What is remembered of a followed origin fits into documents, each below a megabyte."""

import hashlib
from typing import Final

from shared.core.meter import Meter
from shared.knowledge.followed import FileState, Followed
from shared.runtime.context import Context
from tests.support.database_dump import read_all_documents

ADDRESS: Final = "gs://library/notes"


async def load_state(ctx: Context, address: str = ADDRESS) -> Followed[FileState]:
    """Return the stored state of an origin."""
    followed = Followed(ctx.database, address, FileState)
    await followed.load()
    return followed


async def test_a_large_state_is_split_and_replaced(ctx: Context) -> None:
    """A small one takes a document, and one read and one write."""
    ids = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(150_000)]
    large, small = FileState(3, tuple(ids)), FileState(2, ("file-a",), missing=True)
    for state, documents in ((small, 1), (large, 7), (small, 1)):
        await (await load_state(ctx)).store({"a.md": state}, {"note": "N."})
        followed = await load_state(ctx)
        assert (followed.items, followed.fields["note"]) == ({"a.md": state}, "N.")
        assert len(await read_all_documents(ctx.database.connection.client)) == documents


async def test_origins_have_states_of_their_own(ctx: Context, meter: Meter) -> None:
    """A state that is as it was loaded is not written."""
    followed = await load_state(ctx)
    for _ in range(2):
        await followed.store({"a.md": FileState(1, ("file-a",))}, {"note": "N."})
    assert meter.documents_written == 1
    assert (await load_state(ctx, "gs://library/other")).items == {}
    assert meter.documents_read == 2
