"""Splits a rejected batch, so that one bad item does not block the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT", bound=Exception)


async def bisect_batch(
    items: Sequence[ItemT],
    attempt: Callable[[Sequence[ItemT]], Awaitable[ResultT]],
    error_types: type[ErrorT] | tuple[type[ErrorT], ...],
) -> AsyncIterator[tuple[Sequence[ItemT], ResultT | ErrorT]]:
    """Process a batch. If it is rejected, process its halves, and so on down to single items.

    Args:
        items: The batch. Outcomes are yielded in the same order.
        attempt: Processes a batch, or raises an error. It is called only when the next outcome is
            requested, so a consumer that stops iterating also stops the attempts.
        error_types: The errors after which a batch is split. Any other error ends the iteration.

    Yields:
        Each accepted batch with the result of `attempt`, or a single item with its error.
    """
    batches = [items] if items else []
    while batches:
        batch = batches.pop()
        outcome: ResultT | ErrorT
        try:
            outcome = await attempt(batch)
        except error_types as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                # The list is a stack, so the first half is pushed last.
                batches += [batch[middle:], batch[:middle]]
                continue
            outcome = error
        yield batch, outcome
