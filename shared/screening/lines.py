"""A text's lines as a scanner must see them: what hides a secret from it is undone."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

import regex

_BREAK: Final = regex.compile(r"\r\n|\r|\n")
# Zero-width characters, soft hyphens, variation selectors and the like: they show nothing.
_UNSEEN: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]+")


def lines_of(text: str) -> list[str]:
    """The lines of a text, numbered as an editor does, without disguises.

    Full-width and mathematical letters and digits become plain ones (NFKC, character by character,
    as far as the result is one character: nothing grows) and characters that show nothing go.
    """
    return [line if line.isascii() else _plain(line) for line in _BREAK.split(text)]


def _plain(line: str) -> str:
    return "".join(map(_folded, _UNSEEN.sub("", line)))


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character)
    return folded if len(folded) == 1 else character
