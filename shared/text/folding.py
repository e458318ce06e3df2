"""Decides whether two texts are the same text, and cleans them.

What folds: Unicode's ways to write one character (NFC), runs of white space, case, and a final full
stop. Nothing else does, because a sign or a small word may be the whole difference: `-5`, `C++`,
`!x`, "not".
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Final

_FULL_STOPS: Final = (".", "。")
# Control characters other than white space, soft hyphens, lone surrogates, and characters that are
# invisible or only change the direction of text (zero-width space, word joiner, byte order mark,
# bidirectional controls). Joiners and variation selectors are missing, because scripts and emoji
# need them.
_INVISIBLE: Final = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ud800-\udfff]+"
)


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


def normalize_line(text: str) -> str:
    """Put a text on one line without invisible characters, to compare, embed and index it.

    White space is stripped from both ends, and runs of it within the text become one space. Control
    characters, invisible characters that no script needs, and lone surrogates are removed. The
    result may be empty.
    """
    return " ".join(_INVISIBLE.sub("", text).split())
