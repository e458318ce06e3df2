"""Splitting a rejected batch, so that one bad item does not hold up the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT", bound=Exception)


async def bisect(
    items: Sequence[ItemT],
    attempt: Callable[[Sequence[ItemT]], Awaitable[ResultT]],
    refusal: type[ErrorT] | tuple[type[ErrorT], ...],
) -> AsyncIterator[tuple[Sequence[ItemT], ResultT | ErrorT]]:
    """Process a batch, and split it into halves where it is rejected, down to single items.

    Args:
        items: The batch, in order; the outcomes come in the same order.
        attempt: Processes a batch, or raises. It is called lazily: a consumer that stops iterating
            stops the attempts.
        refusal: The errors for which smaller batches are tried; any other error ends the iteration.

    Yields:
        Each accepted batch with the result of `attempt`, or a single item with its error.
    """
    batches = [items] if items else []
    while batches:
        batch = batches.pop()
        outcome: ResultT | ErrorT
        try:
            outcome = await attempt(batch)
        except refusal as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                batches += [batch[middle:], batch[:middle]]
                continue
            outcome = error
        yield batch, outcome
