"""Decodes HTML pages, which may declare no encoding or a wrong one."""

from __future__ import annotations

import codecs
import re
from html import unescape
from typing import Final

from functions.jobs.ingest.readers.decoding import DecodedText, decode_legacy
from functions.jobs.ingest.readers.source_file import Unreadable

_DECLARED_ENCODING: Final = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]{0,200}?\b(?:charset|encoding)\s*=\s*["']?([\w.:-]{1,40})""",
    re.IGNORECASE,
)
"""The declaration of the encoding in an HTML `meta` element or an XML declaration."""
_SNIFFED_BYTES: Final = 1024
"""A page declares its encoding within this many leading bytes (WHATWG HTML, 13.2.3.2)."""
_WIDER_CODECS: Final = {
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("gb2312", "gb_2312-80", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean"), "cp949"),
}
"""The codecs for pages with these labels. Many such pages contain characters that only this wider
codec supports (WHATWG Encoding, 4.2)."""
_WEB_CODECS: Final = frozenset(
    [
        *(f"cp{number}" for number in (866, 874, 932, 949, *range(1250, 1259))),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
        *("big5", "big5hkscs", "euc_jp", "euc_kr", "gb18030", "gbk", "gb2312", "iso2022_jp"),
        *("koi8-r", "koi8-u", "mac-cyrillic", "mac-roman", "shift_jis", "tis-620", "utf-8"),
    ]
)
"""Python's names of the encodings of web pages (WHATWG Encoding, 4.2). Python has further codecs,
such as `unicode_escape` and `utf-7`, by which no browser reads a page. UTF-16 is missing, because
the bytes of a declaration that could be read as ASCII cannot be UTF-16."""
_UNKNOWN_ENCODING: Final = (
    "is in an encoding that is not recognized, and was read as windows-1252; if letters are wrong,"
    " save it as UTF-8"
)
"""The warning about a page whose encoding is not recognized."""
_TAG: Final = re.compile(rb"<[^<>]*>")
_REFERENCE: Final = re.compile(r"&#(?:x[0-9a-f]{1,8}|[0-9]{1,8});?", re.IGNORECASE)
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow (XML 1.0, 2.2), such as the vertical tabs of Word. trafilatura
refuses pages with them."""
_REPLACEMENT: Final = "\ufffd"
_BYTE_ORDER_MARKS: Final = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}


def decode_html(html: bytes) -> DecodedText:
    """Decode a page by its byte order mark, as valid UTF-8, by its declaration, or by a guess.

    Valid UTF-8 outranks a declaration, because a server or a program that converts pages to UTF-8
    often leaves the former declaration in them. Text in another encoding is hardly ever valid
    UTF-8. Characters that XML does not allow are removed from the text.
    """
    text, warnings = _decode(html)
    text = _NOT_XML.sub("", _REFERENCE.sub(_replace_reference, text))
    return DecodedText(text, warnings)


def _decode(html: bytes) -> DecodedText:
    marked_encoding = next(
        (name for mark, name in _BYTE_ORDER_MARKS.items() if html.startswith(mark)), None
    )
    if marked_encoding is None and not html.isascii():
        try:
            return DecodedText(html.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    declaration = _DECLARED_ENCODING.search(html[:_SNIFFED_BYTES])
    declared_codec = choose_codec(declaration[1].decode("ascii")) if declaration else None
    for name in filter(None, (marked_encoding, declared_codec, "utf-8")):
        try:
            text = html.decode(name, "replace")
        except UnicodeError:
            continue
        invalid = text.count(_REPLACEMENT)
        valid = sum(not character.isascii() for character in text) - invalid
        if 2 * invalid <= valid:  # a page in this encoding may contain a few stray bytes
            return DecodedText(text.removeprefix("\ufeff"))
    try:
        return decode_legacy(html, _TAG.sub(b"\n", html))
    except Unreadable:
        return DecodedText(html.decode("windows-1252", "replace"), (_UNKNOWN_ENCODING,))


def choose_codec(label: str) -> str | None:
    """Return the codec for pages that declare an encoding by this label, or None if none has it."""
    label = label.lower()
    # Pages labelled Latin-1 are decoded as Windows-1252 (WHATWG Encoding, 4.2).
    if label in {"iso-8859-1", "latin-1", "latin1", "us-ascii", "ascii"}:
        return "windows-1252"
    try:
        codec = codecs.lookup(_WIDER_CODECS.get(label, label)).name
    except LookupError:
        return None
    return codec if codec in _WEB_CODECS else None


def _replace_reference(reference: re.Match[str]) -> str:
    """Replace a numeric reference with its character in HTML: an apostrophe for `&#146;`.

    A reference to an ASCII character is kept, because the character could become markup.
    """
    character = unescape(reference[0])
    is_printable_ascii = bool(character) and character.isascii() and character.isprintable()
    return reference[0] if is_printable_ascii else character
