"""Loads traces that the caller may read or change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import Forbidden, NotFound
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.repository import StoredTrace


async def get_readable_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller may read. Costs one Firestore round trip.

    Only its contributor can read a withdrawn trace.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
    """
    stored_trace = await Traces(ctx.database).get(trace_id)
    if stored_trace is None or (
        stored_trace.trace.withdrawn_at and not caller_contributed(stored_trace, ctx)
    ):
        raise NotFound(
            f"There is no trace {trace_id!r}, or its contributor withdrew it. Find one with"
            " search_traces and copy its trace_id.",
            details={"trace_id": trace_id},
        )
    return stored_trace


async def get_own_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller contributed. Costs one Firestore round trip.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
        Forbidden: Another user contributed the trace.
    """
    stored_trace = await get_readable_trace(trace_id, ctx)
    if not caller_contributed(stored_trace, ctx):
        raise Forbidden(
            "Only its contributor can amend or withdraw a trace. Vote on it with vote_trace, or"
            " contribute a better one by calling contribute_trace with supersedes set to this"
            " trace_id.",
            details={"trace_id": trace_id},
        )
    return stored_trace


def caller_contributed(stored_trace: StoredTrace, ctx: Context) -> bool:
    """Return whether the caller contributed the trace."""
    return stored_trace.trace.contributor == ctx.caller.user_id
