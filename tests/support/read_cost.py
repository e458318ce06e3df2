"""The context of one call, and what the call read."""

from typing import NamedTuple

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App, Context


class ReadCost(NamedTuple):
    """The cost of a call that only reads.

    Attributes:
        round_trips: The number of times that the call waited for the database.
        documents: The number of reads that Firestore bills: one for each document, and one for a
            query without results.
    """

    round_trips: int
    documents: int


def make_call_context(app: App, caller: Caller | None = None) -> Context:
    """Return the context of a new call, by default one without a credential."""
    return app.context(caller or Caller(), Meter())


def get_read_cost(ctx: Context) -> ReadCost:
    """Assert that a call wrote nothing, and return its cost."""
    assert ctx.meter.documents_written == 0
    return ReadCost(ctx.meter.round_trips, ctx.meter.documents_read)
