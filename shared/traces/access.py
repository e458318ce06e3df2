"""Checks of whether the caller may read or change a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import Forbidden, NotFound
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.repository import StoredTrace


async def get_readable_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller may read. Costs one Firestore round trip.

    A withdrawn trace can only be read by its contributor.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
    """
    stored = await Traces(ctx.database).get(trace_id)
    if stored is None or (stored.trace.withdrawn_at and not is_contributor(stored, ctx)):
        raise NotFound(
            f"There is no trace {trace_id!r}, or its contributor withdrew it. Find one with"
            " search_traces and copy its trace_id.",
            details={"trace_id": trace_id},
        )
    return stored


async def get_own_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller contributed. Costs one Firestore round trip.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
        Forbidden: Another user contributed the trace.
    """
    stored = await get_readable_trace(trace_id, ctx)
    if not is_contributor(stored, ctx):
        raise Forbidden(
            "Only its contributor can amend or withdraw a trace. Vote on it with vote_trace, or"
            " contribute a better one by calling contribute_trace with its id as supersedes.",
            details={"trace_id": trace_id},
        )
    return stored


def is_contributor(stored: StoredTrace, ctx: Context) -> bool:
    """Return whether the caller contributed the trace."""
    return stored.trace.contributor == ctx.caller.user_id
