"""Recognizes legacy encodings by the alphabets of languages.

In the right encoding, nearly all characters that are not ASCII belong to the alphabet of one
language, and capitals begin words. charset-normalizer compares the frequency of letters instead,
and mistakes many encodings of Latin and Cyrillic letters for each other.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_RUSSIAN: Final = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
_ALPHABETS: Final = {
    "western": (
        "äöüßéèà",  # German
        "àâæçéèêëîïôœùûüÿ",  # French
        "áéíóúüñç",  # Spanish
        "àáâãçéêíóôõúü",  # Portuguese
        "àèéìíîòóùú",  # Italian
        "åäöæøéüèàáóô",  # Danish, Finnish, Norwegian, Swedish
        "áéíóúýþæöð",  # Icelandic
        "áéèëïíóöúüêç",  # Dutch
        "àçéèíïóòúü",  # Catalan
        "áàâäåæçéèêëíîïñóôöøßúûü",  # foreign words and names in English
    ),
    "central": (
        "ąćęłńóśźż",  # Polish
        "áčďéěíňóřšťúůýž",  # Czech
        "áäčďéíĺľňóôŕšťúýž",  # Slovak
        "áéíóöőúüű",  # Hungarian
        "ăâîşţ",  # Romanian
        "čćđšž",  # Croatian, Slovenian
    ),
    "turkish": ("çğıİöşüâîû",),
    "cyrillic": (
        _RUSSIAN,  # also Bulgarian
        "абвгґдеєжзиіїйклмнопрстуфхцчшщьюяў",  # Ukrainian
        "абвгдђежзијклљмнњопрстћуфхцчџш",  # Serbian
    ),
    "greek": ("αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ",),
    "hebrew": ("אבגדהוזחטיךכלםמןנסעףפץצקרשת",),
    "arabic": ("ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيًٌٍَُِّْ",),
}
"""The letters of languages that are not ASCII, in lower case, by group."""
ENCODINGS: Final = {
    "cp1252": "western",
    "cp1250": "central",
    "iso8859_2": "central",
    "cp1254": "turkish",
    "mac_roman": "western",
    "cp850": "western",
    "cp852": "central",
    "cp1255": "hebrew",
    "cp1251": "cyrillic",
    "koi8_r": "cyrillic",
    "koi8_u": "cyrillic",
    "cp866": "cyrillic",
    "iso8859_5": "cyrillic",
    "mac_cyrillic": "cyrillic",
    "cp1253": "greek",
    "iso8859_7": "greek",
    "cp1256": "arabic",
    "iso8859_6": "arabic",
    "cp932": "japanese",
    "euc_jp": "japanese",
    "gb18030": "chinese",
    "big5": "chinese",
    "cp949": "korean",
}
"""The legacy encodings that are recognized, and their groups of languages.

A text that fits several encodings equally is read in the first. Common encodings come first, but
Hebrew comes before Cyrillic, because Hebrew letters look like Russian ones in cp1251.
"""
LATIN: Final = frozenset({"western", "central", "turkish"})
"""The groups whose words contain ASCII letters, too."""
_SYMBOLS: Final = frozenset(
    "\xa0\xad‘’‚“”„«»‹›–—…•·°§©®™€£¥¿¡½¼¾²³ªº¹×№±†‡،؛؟"  # noqa: RUF001 - quotation marks, dashes
)
_INNER_SYMBOLS: Final = frozenset("’·\xad")  # noqa: RUF001 - apostrophe
"""The symbols that may occur within a word."""
_FREE_SYMBOLS: Final = frozenset("§†‡±")
"""The symbols that are never next to a letter."""
_FINAL_LETTERS: Final = frozenset("ςךםןףץ")
"""The forms of Greek and Hebrew letters at the end of a word."""
_SAMPLE_BYTES: Final = 8_192
"""Only this many leading bytes are compared with the alphabets, which takes 0.4 seconds."""
_MAX_FAULTS: Final = 0.03
"""The maximum share of characters that do not fit in the right encoding, such as the letters of
foreign names."""
_JAPANESE: Final = ("cp932", "euc_jp")
_KANA: Final = re.compile("[ぁ-ん]|[ァ-ヶー]{2,}")
_MIN_KANA: Final = 0.2
"""The minimum share of kana in Japanese texts."""


class _Score(NamedTuple):
    """How well a text fits an encoding and a language. The lowest score is best.

    Attributes:
        faults: The number of characters that do not fit.
        order: The place of the encoding in `ENCODINGS`.
    """

    faults: int
    is_shouting: bool
    is_sparse: bool
    order: int
    encoding: str


def detect_by_alphabet(data: bytes) -> str | None:
    """Return the encoding in which a text fits the alphabet of a language best, or None."""
    sample = data[:_SAMPLE_BYTES]
    non_ascii_count = len(sample) - len(sample.decode("ascii", "ignore"))
    scores: list[_Score] = []
    for order, (encoding, group) in enumerate(ENCODINGS.items()):
        text = sample.decode(encoding, "replace")
        is_shouting = 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))
        for letters in _ALPHABETS.get(group, ()):
            faults = _count_faults(text, frozenset(letters), is_latin=group in LATIN)
            # Hungarian fits the alphabet of Portuguese, too, but uses few of its letters.
            is_sparse = 2 * len(set(letters).intersection(text)) < len(letters)
            scores.append(_Score(faults, is_shouting, is_sparse, order, encoding))
    best = min(scores)
    japanese = next((name for name in _JAPANESE if _is_japanese(data, name)), None)
    # Katakana in cp932 look like capitals in other encodings.
    if best.faults > _MAX_FAULTS * non_ascii_count or (best.is_shouting and japanese):
        return japanese
    return best.encoding


def _count_faults(text: str, letters: frozenset[str], *, is_latin: bool) -> int:
    """Count the characters outside ASCII that do not fit a language.

    Args:
        letters: The letters of the language outside ASCII, in lower case.
        is_latin: Whether words of the language contain ASCII letters, too.
    """
    faults = 0
    before = " "
    for position, character in enumerate(text):
        if not character.isascii():
            after = text[position + 1 : position + 2]
            neighbours = before + after
            if character in letters or character.lower() in letters:
                faults += (
                    (character.isupper() and before.islower())
                    or (character.islower() and after.isupper())
                    or (character in _FINAL_LETTERS and after.isalpha())
                    or (not is_latin and any(map(_is_ascii_letter, neighbours)))
                )
            elif character in _SYMBOLS:
                is_inner = before.isalpha() and after.isalpha()
                is_attached = before.isalpha() or after.isalpha()
                faults += (is_inner and character not in _INNER_SYMBOLS) or (
                    is_attached and character in _FREE_SYMBOLS
                )
            else:
                faults += 1
        before = character
    return faults


def _is_ascii_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _is_japanese(data: bytes, encoding: str) -> bool:
    """Return whether a text is valid in a Japanese encoding, and has enough kana."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    kana = sum(map(len, _KANA.findall(text)))
    return kana >= _MIN_KANA * (len(text) - len(text.encode("ascii", "ignore"))) > 0
