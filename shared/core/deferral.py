"""The retry schedule of failed work, which ends with a dead letter."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

MAX_TRIES: Final = 5
"""After this many failures, an item becomes a dead letter, which is retried only on request."""


def schedule_retry(tries: int, now: datetime) -> datetime | None:
    """Return when to retry an item that failed `tries` times, or None to dead-letter the item.

    The pauses are 2, 4, 8 and 16 minutes.
    """
    return None if tries >= MAX_TRIES else now + timedelta(minutes=2**tries)
