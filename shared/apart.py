"""Things that a job does one after the other, of which none keeps the next from being done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import CarrelError
from shared.core.log import describe, log
from shared.firestore.database import LeaseLost
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from shared.runtime.context import Deps
    from shared.runtime.job import Report


async def set_apart(name: str, work: Awaitable[None], deps: Deps, report: Report) -> bool:
    """Do something; where it fails, tell and go on.

    What the database cannot answer in time it may refuse again and again; where it answers nothing
    at all, the run ends.

    Args:
        name: What it is of, for the report.
        work: What to do.
        deps: To ask the database with.
        report: Takes the failure.

    Returns:
        Whether it went well.

    Raises:
        CarrelError: The database is down, or another run has taken over.
    """
    try:
        await work
    except LeaseLost:
        raise
    except (CarrelError, AttributeError, LookupError, TypeError, ValueError) as error:
        await _require_database(deps, error)
        log.error("set_apart", **describe(error))
        told = error.message if isinstance(error, CarrelError) else "is not as it is stored"
        report.failures.append(Failure(name, told))
        return False
    return True


async def _require_database(deps: Deps, cause: Exception) -> None:
    """Return if the database answers a question that has nothing to do with what failed."""
    try:
        await EmbeddingSpace(deps.database).stamp()
    except CarrelError:
        raise cause from None
