"""When work that failed is tried again, and when it is given up as a dead letter."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

MAX_TRIES: Final = 5
"""An item that failed this many times is dead-lettered: no run tries it until someone asks."""


def next_attempt(tries: int, now: datetime) -> datetime | None:
    """When to retry an item that has failed `tries` times; None if it becomes a dead letter.

    The pauses are 2, 4, 8 and 16 minutes.
    """
    return None if tries >= MAX_TRIES else now + timedelta(minutes=2**tries)
