"""Base64 for addresses (RFC 4648, section 5), without the padding that nobody needs."""

from __future__ import annotations

import base64


def to_base64url(plain: bytes) -> str:
    """Letters, digits, `-` and `_` alone."""
    return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """What `to_base64url` was given.

    Raises:
        ValueError: It is none, padded or not.
    """
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
