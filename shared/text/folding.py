"""Decides whether two texts are the same text.

What folds: Unicode's ways to write one character (NFC), runs of white space, case, and a final full
stop. Nothing else does, because a sign or a small word may be the whole difference: `-5`, `C++`,
`!x`, "not".
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Final

_FULL_STOPS: Final = (".", "。")


def fold_text(text: str) -> str:
    """Return what remains of a text when its writing is ignored. The same texts fold to one."""
    # Not casefold, which makes "Maße" and "Masse" one word.
    line = unicodedata.normalize("NFC", " ".join(text.lower().split()))
    if line.endswith(_FULL_STOPS) and not line[:-1].endswith(_FULL_STOPS):
        return line[:-1].rstrip()
    return line


def hash_texts(*texts: str | None) -> str:
    """Return a hash that two lists of texts share only if they are the same, text by text."""
    folded_texts = [None if text is None else fold_text(text) for text in texts]
    return hashlib.sha256(json.dumps(folded_texts).encode()).hexdigest()
