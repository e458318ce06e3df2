"""Recognizes legacy encodings by the alphabets of languages.

In the right encoding, nearly all characters that are not ASCII belong to the alphabet of one
language, and capitals begin words. charset-normalizer compares the frequency of letters instead,
and mistakes many encodings of Latin and Cyrillic letters for each other.
"""

from __future__ import annotations

from typing import Final

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
_GROUP_BY_ENCODING: Final = {
    "cp1252": "western",
    "cp1250": "central",
    "iso8859_2": "central",
    "cp1254": "turkish",
    "mac_roman": "western",
    "cp850": "western",
    "cp852": "central",
    "cp1251": "cyrillic",
    "koi8_r": "cyrillic",
    "koi8_u": "cyrillic",
    "cp866": "cyrillic",
    "iso8859_5": "cyrillic",
    "mac_cyrillic": "cyrillic",
    "cp1253": "greek",
    "iso8859_7": "greek",
    "cp1255": "hebrew",
    "cp1256": "arabic",
    "iso8859_6": "arabic",
}
"""The encodings, in descending order of frequency within a group."""
_LATIN: Final = frozenset({"western", "central", "turkish"})
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
_MIN_HIRAGANA: Final = 0.2
"""The minimum share of hiragana in Japanese texts."""


def detect_by_alphabet(data: bytes) -> str | None:
    """Return the encoding in which a text fits the alphabet of a language best, or None."""
    sample = data[:_SAMPLE_BYTES]
    count = len(sample) - len(sample.decode("ascii", "ignore"))
    # Of two encodings with equally few faults, the text is rather not in capitals, and rather in a
    # language with few letters: the letters of Hebrew are a part of those of Russian.
    scores: list[tuple[int, bool, int, int, str]] = []
    for order, (encoding, group) in enumerate(_GROUP_BY_ENCODING.items()):
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError:
            continue
        is_shouting = 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))
        for letters in _ALPHABETS[group]:
            faults = _count_faults(text, frozenset(letters), is_latin=group in _LATIN)
            scores.append((faults, is_shouting, len(letters), order, encoding))
    faults, *_, encoding = min(scores, default=(count, ""))
    if encoding and faults <= _MAX_FAULTS * count:
        return encoding
    return next((encoding for encoding in _JAPANESE if _is_japanese(data, encoding)), None)


def _count_faults(text: str, letters: frozenset[str], *, is_latin: bool) -> int:
    """Return how many characters that are not ASCII do not fit."""
    faults = 0
    before = " "
    for position, character in enumerate(text):
        if not character.isascii():
            after = text[position + 1 : position + 2]
            neighbours = before + after
            if character in letters or character.lower() in letters:
                faults += (
                    (character.isupper() and before.islower())
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
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    others = [character for character in text if not character.isascii()]
    hiragana = sum("ぁ" <= character <= "ん" for character in others)
    return hiragana >= _MIN_HIRAGANA * len(others) > 0
