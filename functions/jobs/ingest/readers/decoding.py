"""Decodes files to text, with error messages for their owner.

Texts are in UTF-8, in UTF-16 with a byte order mark, or in a legacy encoding, which is guessed.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.alphabets import ENCODINGS, LATIN, detect_by_alphabet
from functions.jobs.ingest.readers.source_file import Unreadable, describe_excess

if TYPE_CHECKING:
    from pathlib import Path

UTF16_MARKS: Final = (BOM_UTF16_LE, BOM_UTF16_BE)
"""The byte order marks at the beginning of a file in UTF-16."""
_CONTROLS: Final = re.compile(rb"[\x01-\x08\x0e-\x19\x7f]")
r"""Bytes that no text contains. `\x1a` ends old DOS files, and `\x1b` to `\x1f` are escapes and
separators, which texts do contain."""
_SAMPLE_BYTES: Final = 65_536
"""The encoding is detected from this many leading bytes of the lines that are not ASCII."""
_CHAOS_TOLERANCE: Final = 0.05
"""An encoding is likely if its `chaos`, as charset-normalizer measures it, exceeds that of the best
encoding by at most this."""
_COHERENCE_TOLERANCE: Final = 0.12
"""An encoding is likely if its `coherence`, as charset-normalizer measures it, is below that of the
best encoding by at most this."""
_REPLACEMENT: Final = "\ufffd"
"""The character that Python puts in the place of invalid bytes."""


class DecodedText(NamedTuple):
    """A text, with warnings if its encoding was guessed or some bytes are not valid in it."""

    text: str
    warnings: tuple[str, ...] = ()


def read_unicode_text(path: Path, limit: int) -> str:
    """Read a file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        Unreadable: The file is larger than the limit (bytes), binary, or in another encoding.
        OSError: The file cannot be opened.
    """
    data = _read_limited(path, limit)
    try:
        return _decode_unicode(data)
    except UnicodeDecodeError as error:
        raise _make_not_utf8_error(data, error) from error


def read_any_text(path: Path, limit: int) -> DecodedText:
    """Read a file in UTF-8, UTF-16 with a byte order mark, or a legacy encoding.

    Raises:
        Unreadable: The file is larger than the limit (bytes) or binary, or its encoding is not
            recognized.
        OSError: The file cannot be opened.
    """
    return decode_any(_read_limited(path, limit))


def decode_any(data: bytes) -> DecodedText:
    """Decode a text in any of these encodings.

    Raises:
        Unreadable: The data is binary, or its encoding is not recognized.
    """
    try:
        return DecodedText(_decode_unicode(data))
    except UnicodeDecodeError:
        return _decode_damaged_utf8(data) or decode_legacy(data)


def _read_limited(path: Path, limit: int) -> bytes:
    if reason := describe_excess(path.stat().st_size, limit):
        raise Unreadable(reason)
    return path.read_bytes()


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        Unreadable: The data is not UTF-8; the message names the first invalid byte.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _make_not_utf8_error(data, error) from error


def _make_not_utf8_error(data: bytes, error: UnicodeDecodeError) -> Unreadable:
    byte = f"byte 0x{data[error.start]:02x} at position {error.start}"
    return Unreadable(f"is not UTF-8: {byte}; save it as UTF-8")


def _decode_unicode(data: bytes) -> str:
    """Decode UTF-16 with a byte order mark, or UTF-8.

    Raises:
        Unreadable: The data is binary, or begins with a UTF-16 byte order mark but is not UTF-16.
        UnicodeDecodeError: The data is not UTF-8.
    """
    if data.startswith(UTF16_MARKS):
        return _decode_utf16(data)
    nul = data.find(b"\0")
    if nul >= 0:
        raise Unreadable(f"is not text: there is a NUL byte at position {nul}")
    return data.decode("utf-8").removeprefix("\ufeff")


def _decode_utf16(data: bytes) -> str:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise Unreadable(explain_utf16_error(error)) from error
    if "\0" in text:
        raise Unreadable(f"is not text: there is a NUL character at position {text.index(chr(0))}")
    return text


def explain_utf16_error(error: UnicodeDecodeError) -> str:
    """Return the message for a file with a UTF-16 byte order mark that cannot be decoded."""
    return f"has a UTF-16 byte order mark, but is not UTF-16: {error.reason}; save it as UTF-8"


def _decode_damaged_utf8(data: bytes) -> DecodedText | None:
    """Decode UTF-8 with a few invalid bytes, such as a file that was cut off.

    Return None if most characters outside ASCII are invalid, because the text is then probably in
    a legacy encoding. A text with a byte order mark is UTF-8, however many are invalid.
    """
    text = data.decode("utf-8-sig", "replace")
    invalid = text.count(_REPLACEMENT)
    non_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if non_ascii < 2 * invalid and not data.startswith(BOM_UTF8):
        return None
    return DecodedText(text, (_describe_damage(text, "UTF-8"),))


def decode_legacy(data: bytes, sample: bytes | None = None) -> DecodedText:
    """Decode a text in a legacy encoding.

    Args:
        sample: The bytes from which to detect the encoding, such as a page without its tags; by
            default, the whole text.

    Returns:
        The text, a warning that names the encoding, and another if some bytes are not valid in it.

    Raises:
        Unreadable: The data is binary, or its encoding is not recognized.
    """
    if _CONTROLS.search(data):
        raise Unreadable("is not text: it has control characters, and is not UTF-8")
    encodings = _detect_encodings(sample or data)
    # Invalid bytes are replaced only if the text is not valid in any of the encodings.
    for errors, encoding in product(("strict", "replace"), encodings):
        try:
            text = data.decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        guess = f"is not UTF-8 and was read as {encoding}; if letters are wrong, save it as UTF-8"
        if errors == "strict":
            return DecodedText(text, (guess,))
        return DecodedText(text, (guess, _describe_damage(text, encoding)))
    raise Unreadable("is in an encoding that is not recognized: save it as UTF-8")


def _describe_damage(text: str, encoding: str) -> str:
    count = text.count(_REPLACEMENT)
    places = "1 place" if count == 1 else f"{count:,} places"
    return f"has bytes that are not {encoding} in {places}, which were replaced with {_REPLACEMENT}"


def _detect_encodings(data: bytes) -> list[str]:
    """Return the legacy encodings that a text may have, in descending order of likelihood."""
    sample = _take_sample(data)
    if encoding := detect_by_alphabet(sample):
        return [encoding]
    # Imported here, because it is slow to import, and most texts are UTF-8.
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=list(ENCODINGS))
    best = matches.best()
    if best is None:
        return []
    likely = {
        encoding
        for match in matches
        if match.chaos <= best.chaos + _CHAOS_TOLERANCE
        and match.coherence >= best.coherence - _COHERENCE_TOLERANCE
        for encoding in match.could_be_from_charset
    }
    # Encodings of the text's own script come first, because False sorts before True. Among them,
    # the order of ENCODINGS remains.
    is_latin = 2 * len(sample.decode("ascii", "ignore")) > len(sample)
    order = sorted(ENCODINGS, key=lambda encoding: (ENCODINGS[encoding] in LATIN) != is_latin)
    return [encoding for encoding in order if encoding in likely]


def _take_sample(data: bytes) -> bytes:
    """Return the lines that are not ASCII, up to a limit, without a character cut in two."""
    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())
    if len(sample) <= _SAMPLE_BYTES:
        return sample
    sample = sample[:_SAMPLE_BYTES]
    # In the recognized encodings, none of these is the second byte of a character.
    end = max(sample.rfind(separator) for separator in (b"\n", b" ", b"."))
    return sample[: end + 1] or sample
