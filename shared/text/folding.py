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

_TYPOGRAPHY: Final = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"')
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    # NFKC would make 10 squared and 102 one number.
    | {superscript: f"^{digit}" for digit, superscript in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
)


def fold_text(text: str) -> str:
    """Return what remains of a text when its writing is ignored. The same texts fold to one."""
    # Not casefold, which makes "Maße" and "Masse" one word.
    line = unicodedata.normalize("NFC", " ".join(text.lower().split()))
    if line.endswith(_FULL_STOPS) and not line[:-1].endswith(_FULL_STOPS):
        return line[:-1].rstrip()
    return line


def fold_typography(text: str) -> str:
    """Fold a text, and also its quotation marks, dashes, ligatures and widths of characters."""
    line = normalize_line(text).translate(_TYPOGRAPHY)
    return fold_text(unicodedata.normalize("NFKC", line))


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
