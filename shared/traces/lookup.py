"""The trace that a call names, if its caller may have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import Forbidden, NotFound
from shared.store.traces import Traces

if TYPE_CHECKING:
    from shared.runtime.context import Deps
    from shared.store.traces import StoredTrace


async def readable(trace_id: str, deps: Deps) -> StoredTrace:
    """The trace, unless it was withdrawn: then its contributor alone still reads it.

    One round trip.

    Raises:
        NotFound: There is none, or no more.
    """
    stored = await Traces(deps.database).get(trace_id)
    if stored is None or (stored.trace.withdrawn_at and not is_own(stored, deps)):
        raise NotFound(
            f"There is no trace {trace_id!r}, or its contributor withdrew it. Search with"
            " search_traces, and copy the trace_id from there.",
            details={"trace_id": trace_id},
        )
    return stored


async def own(trace_id: str, deps: Deps) -> StoredTrace:
    """The trace, if the caller contributed it. One round trip.

    Raises:
        NotFound: There is none, or no more.
        Forbidden: It is somebody else's.
    """
    stored = await readable(trace_id, deps)
    if not is_own(stored, deps):
        raise Forbidden(
            "Only who contributed this trace may amend or withdraw it. Vote on it with vote_trace,"
            " or contribute a better one with contribute_trace and supersedes.",
            details={"trace_id": trace_id},
        )
    return stored


def is_own(stored: StoredTrace, deps: Deps) -> bool:
    """Whether the caller contributed it."""
    return stored.trace.contributor == deps.caller.user_id
