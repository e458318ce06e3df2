"""This machine under each of its names: what is sent there stays there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from urllib.parse import SplitResult

HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""As addresses have them."""
_NAMES: Final = frozenset(each.strip("[]") for each in HOSTS)


def is_loopback(url: SplitResult) -> bool:
    """Whether an address leads to this machine."""
    return url.hostname in _NAMES
