"""Makes text safe to print: a file's name or a trace may contain what a terminal obeys."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, except tabs and line feeds, and characters that change the direction of
text."""


def make_printable(text: str) -> str:
    """Remove control characters, which a terminal might obey, but keep line feeds and tabs."""
    return _CONTROLS.sub("", text)
