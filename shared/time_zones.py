"""Time zones by their names in the IANA time zone database."""

from __future__ import annotations

from datetime import UTC, tzinfo


def time_zone(name: str) -> tzinfo:
    """The time zone of this name: `UTC`, `Europe/Berlin`.

    Raises:
        ValueError: There is none.
    """
    if name == "UTC":  # nothing to look up, and no file to open at a start
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError("no time zone of the IANA database, such as Europe/Berlin") from None
