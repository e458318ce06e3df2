"""Base64 for URLs (RFC 4648, section 5), without padding."""

from __future__ import annotations

import base64


def to_base64url(content: bytes) -> str:
    """Encode bytes as letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """Decode a text that `to_base64url` encoded.

    Raises:
        ValueError: The text is not valid Base64 for URLs, with or without padding.
    """
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
