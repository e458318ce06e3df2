"""Reads a PDF with PDFium, as a program in its own process.

PDFium cannot be interrupted, and a file of 100 kB can unpack to gigabytes or keep PDFium busy for
hours. A separate process can be limited and stopped, and its crash does not end the run.

Usage: python -m functions.jobs.ingest.readers.pdf.program FILE

The program prints JSON: `{"refusal": ...}`, or the object that `_read` returns.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PAGES: Final = 5_000
"""A document with more pages is rejected."""
MAX_CHARACTERS: Final = 16_000_000
"""The maximum length of the text: four times the longest books."""
MAX_MEMORY: Final = 512 * 1024 * 1024
"""The limit of the address space in bytes. A file of 1 MB took 28 MB, and a file of 50 MB 76 MB."""
_MAX_ANNOTATIONS: Final = 2_000
"""The maximum number of annotations that are read on a page."""
_MAX_CHAPTERS: Final = 2_000
"""The maximum number of chapters that are read. Later ones are ignored."""
_CHAPTER_LEVELS: Final = 2
"""How many levels of the outline are read: parts and chapters, or chapters and their sections."""
_ANGLE_SAMPLE: Final = 200
"""The number of characters of a rotated page from which the angle of its letters is taken."""
_MAX_STRING: Final = 200_000
"""The maximum length of a note in bytes. Longer notes are left out."""
_PASSWORD: Final = 4
"""FPDF_ERR_PASSWORD of fpdfview.h."""
_NOTES: Final = frozenset({1, 3, 4, 5, 6, 7, 8, 14, 15})
"""The subtypes whose note counts: Text, FreeText, Line, Square, Circle, Polygon, PolyLine, Caret
and Ink, from fpdf_annot.h."""
_HIGHLIGHTS: Final = frozenset({9, 10, 11})
"""The subtypes of annotations that mark text: Highlight, Underline and Squiggly."""
_STRIKE_OUT: Final = 12
"""The subtype of struck-out text, which counts only if it has a note."""
_FIELDS: Final = frozenset({4, 5, 6})
"""The types of form fields with text: combo boxes, list boxes and text fields, from
fpdf_formfill.h."""
_MIN_CUT: Final = 0.5
"""The edge of a highlight cuts a character if it is this far inside it, in points."""
_OPENING: Final = frozenset("([\"'\u2018\u201c\u00ab\u00bf\u00a1")
_CLOSING: Final = frozenset(".,;:!?)]\"'\u2019\u201d\u00bb\u2026")
_MAX_ADDED: Final = 2
"""The most characters that PDFium adds between separate words: a space, or a line break of two."""

_ENCRYPTED: Final = "is encrypted: save a copy without a password"
_DAMAGED: Final = "is damaged, or not a PDF: open it in a PDF viewer and save it again"
_TOO_MUCH_TEXT: Final = f"has more than {MAX_CHARACTERS // 1_000_000} million characters: split it"


class _Refusal(Exception):
    """The file cannot be read; the message says why."""


def main() -> None:
    """Print the contents of a file, or why it cannot be read."""
    _limit_memory()
    try:
        answer = _read(sys.argv[1])
    except _Refusal as refusal:
        answer = {"refusal": str(refusal)}
    # ASCII: the encoding of standard output depends on the machine.
    sys.stdout.write(json.dumps(answer))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):  # macOS refuses the limit
        return


def _read(path: str) -> dict[str, Any]:
    """Return the pages as text, the metadata, the outline and the annotations."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        is_encrypted = getattr(error, "err_code", None) == _PASSWORD
        raise _Refusal(_ENCRYPTED if is_encrypted else _DAMAGED) from error
    document.init_forms()  # before the first page
    count = len(document)
    if count > MAX_PAGES:
        raise _Refusal(f"has {count:,} pages, more than {MAX_PAGES:,}: split it")
    pages: list[str] = []
    annotations: list[dict[str, Any]] = []
    characters = 0
    for index in range(count):
        text, on_page = _read_page(document, index)
        characters += len(text) + sum(len(item["text"]) + len(item["note"]) for item in on_page)
        if characters > MAX_CHARACTERS:
            raise _Refusal(_TOO_MUCH_TEXT)
        pages.append(text)
        annotations += [{"page": index + 1, **item} for item in on_page]
    return {
        "metadata": document.get_metadata_dict(skip_empty=True),
        "language": _read_language(document),
        "outline": _read_outline(document),
        "pages": pages,
        "labels": [_read_label(document, index) for index in range(count)],
        "annotations": annotations,
    }


def _read_page(document: Any, index: int) -> tuple[str, list[dict[str, str]]]:
    """Return the text and the annotations of a page; a damaged page has neither."""
    import pypdfium2

    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return "", []
    try:
        text_page = _read_upright(page)
    except pypdfium2.PdfiumError:
        page.close()
        return "", []
    try:
        if text_page.count_chars() > MAX_CHARACTERS:
            raise _Refusal(_TOO_MUCH_TEXT)
        annotations = _read_annotations(page, text_page) + _read_form(document, page)
        return text_page.get_text_range(), annotations
    finally:
        text_page.close()
        page.close()


def _read_upright(page: Any) -> Any:
    """Return the text of a page in the rotation in which most of its letters are upright.

    PDFium sorts lines as the page is shown, so it reverses those of a page that is shown sideways.
    """
    import pypdfium2.raw as pdfium

    text_page = page.get_textpage()
    if not page.get_rotation():
        return text_page
    count = min(text_page.count_chars(), _ANGLE_SAMPLE)
    angles = [pdfium.FPDFText_GetCharAngle(text_page.raw, index) for index in range(count)]
    rotations = [-round(math.degrees(angle)) % 360 for angle in angles if angle >= 0]
    rotation = max(rotations, key=rotations.count, default=page.get_rotation())
    if rotation == page.get_rotation() or rotation % 90:
        return text_page
    text_page.close()
    page.set_rotation(rotation)
    return page.get_textpage()


def _read_annotations(page: Any, text_page: Any) -> list[dict[str, str]]:
    """Return the highlights and notes of a page, in the order of the text beside them.

    On a page of two columns, the height does not give that order.
    """
    import pypdfium2.raw as pdfium

    placed: list[tuple[tuple[int, float, float], dict[str, str]]] = []
    characters: list[_Character] | None = None
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            subtype = pdfium.FPDFAnnot_GetSubtype(annotation)
            if subtype not in _NOTES | _HIGHLIGHTS | {_STRIKE_OUT}:
                continue
            if characters is None:
                characters = _locate_characters(text_page)
            boxes = _read_boxes(annotation)
            texts: list[str] = []
            if subtype not in _NOTES:
                texts = [_read_text_in(text_page, characters, box) for box in boxes]
            item = {
                "text": "\r\n".join(texts),
                "note": _read_string(annotation, b"Contents"),
                "date": _read_string(annotation, b"CreationDate") or _read_string(annotation, b"M"),
            }
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
        text, note = item["text"].split(), item["note"].split()
        if (subtype == _STRIKE_OUT and note in ([], text)) or not (text or note):
            continue
        placed.append(((_find_nearest(characters, boxes[0]), -boxes[0].top, boxes[0].left), item))
    return [item for _, item in sorted(placed, key=lambda entry: entry[0])]


def _read_form(document: Any, page: Any) -> list[dict[str, str]]:
    """Return what was entered into the form fields of a page, as one note; no note if nothing was.

    The text of a page does not include it.
    """
    import pypdfium2.raw as pdfium

    if document.formenv is None:
        return []
    form = document.formenv.raw
    lines: list[str] = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MAX_ANNOTATIONS)):
        field = pdfium.FPDFPage_GetAnnot(page.raw, index)
        if field and pdfium.FPDFAnnot_GetFormFieldType(form, field) in _FIELDS:
            get_label = partial(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, field)
            get_value = partial(pdfium.FPDFAnnot_GetFormFieldValue, form, field)
            label, value = _read_utf16(get_label).strip(), _read_utf16(get_value).strip()
            if value:
                lines.append(f"{label}: {value}" if label else value)
        pdfium.FPDFPage_CloseAnnot(field)
    return [{"text": "", "note": "\n".join(lines), "date": ""}] if lines else []


class _Box(NamedTuple):
    """A rectangle, in points from the page's lower left corner."""

    left: float
    bottom: float
    right: float
    top: float


class _Character(NamedTuple):
    """The centre of a character, in points, and its number on the page; sorted by height."""

    y: float
    x: float
    number: int


def _read_boxes(annotation: Any) -> list[_Box]:
    """Return the rectangles of the lines that an annotation covers, or else its own rectangle."""
    import pypdfium2.raw as pdfium

    boxes = []
    for index in range(min(pdfium.FPDFAnnot_CountAttachmentPoints(annotation), _MAX_ANNOTATIONS)):
        quad = pdfium.FS_QUADPOINTSF()
        if pdfium.FPDFAnnot_GetAttachmentPoints(annotation, index, quad):
            xs = quad.x1, quad.x2, quad.x3, quad.x4
            ys = quad.y1, quad.y2, quad.y3, quad.y4
            boxes.append(_Box(min(xs), min(ys), max(xs), max(ys)))
    if boxes:
        return boxes
    own = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, own)
    return [_Box(own.left, own.bottom, own.right, own.top)]


def _locate_characters(text_page: Any) -> list[_Character]:
    """Return the positions of the characters of a page, lowest first.

    Loose boxes have the height of the font, so a comma and a capital on one line have the same
    vertical centre. Spaces and line breaks that PDFium adds have no position and are left out.
    """
    import pypdfium2.raw as pdfium

    box = pdfium.FS_RECTF()
    return sorted(
        _Character((box.bottom + box.top) / 2, (box.left + box.right) / 2, index)
        for index in range(text_page.count_chars())
        if pdfium.FPDFText_IsGenerated(text_page.raw, index) != 1
        and pdfium.FPDFText_GetLooseCharBox(text_page.raw, index, box)
    )


def _find_nearest(characters: list[_Character], box: _Box) -> int:
    """Return the number of the character nearest to the left edge of a rectangle, or else 0."""
    edge = box.left, (box.bottom + box.top) / 2
    nearest = min(
        characters, key=lambda letter: math.dist((letter.x, letter.y), edge), default=None
    )
    return nearest.number if nearest else 0


def _read_text_in(text_page: Any, characters: list[_Character], box: _Box) -> str:
    first = bisect_left(characters, box.bottom, key=_get_height)
    end = bisect_right(characters, box.top, key=_get_height)
    indexes = sorted(
        character.number
        for character in characters[first:end]
        if box.left < character.x < box.right
    )
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index - runs[-1][-1] <= 1 + _MAX_ADDED:
            runs[-1].append(index)
        else:
            runs.append([index])
    spans = [(_complete(text_page, run[0], box.left, -1), run[-1]) for run in runs]
    spans = [(first, _complete(text_page, last, box.right, 1)) for first, last in spans]
    return "\r\n".join(text_page.get_text_range(first, last - first + 1) for first, last in spans)


def _complete(text_page: Any, index: int, edge: float, step: int) -> int:
    """Return where a highlight begins or ends if what its edge cuts off is added.

    Some viewers draw highlights a little too narrow, so that the first or last letter of a word,
    and the full stop after it, are outside.

    Args:
        index: The number of the first or last character inside the highlight.
        edge: The left or right edge of the highlight, in points.
        step: -1 for the left edge, 1 for the right edge.
    """
    letters = [_get_character(text_page, index + step * distance) for distance in range(3)]
    completes_word = letters[0].isalnum() and letters[1].isalnum() and not letters[2].isalnum()
    if completes_word and _is_cut(text_page, index + step, edge):
        index += step
    if _is_cut(text_page, index, edge):
        marks = _OPENING if step < 0 else _CLOSING
        while _get_character(text_page, index + step) in marks:
            index += step
    return index


def _get_character(text_page: Any, index: int) -> str:
    """Return a character; "" before and after the text."""
    import pypdfium2.raw as pdfium

    is_inside = 0 <= index < text_page.count_chars()
    return chr(pdfium.FPDFText_GetUnicode(text_page.raw, index)) if is_inside else ""


def _is_cut(text_page: Any, index: int, edge: float) -> bool:
    import pypdfium2.raw as pdfium

    box = pdfium.FS_RECTF()
    has_box = pdfium.FPDFText_GetLooseCharBox(text_page.raw, index, box)
    return bool(has_box) and box.left + _MIN_CUT < edge < box.right - _MIN_CUT


def _get_height(character: _Character) -> float:
    return character.y


def _read_string(annotation: Any, key: bytes) -> str:
    """Return a text in an annotation's dictionary, such as `Contents`."""
    import pypdfium2.raw as pdfium

    return _read_utf16(lambda *buffer: pdfium.FPDFAnnot_GetStringValue(annotation, key, *buffer))


def _read_language(document: Any) -> str:
    import pypdfium2.raw as pdfium

    return _read_utf16(lambda *buffer: pdfium.FPDFCatalog_GetLanguage(document.raw, *buffer))


def _read_label(document: Any, index: int) -> str:
    """Return what viewers call a page, such as `xii`; "" if the document has no labels."""
    import pypdfium2.raw as pdfium

    return _read_utf16(lambda *buffer: pdfium.FPDF_GetPageLabel(document.raw, index, *buffer))


def _read_utf16(read: Callable[[Any, int], int]) -> str:
    """Read a UTF-16 text through a function of PDFium; "" if the text is too long.

    Args:
        read: Fills a buffer of the given size in bytes, and returns the size of the text, which
            ends with a two-byte NUL. Without a buffer, it only returns the size.
    """
    import pypdfium2.raw as pdfium

    size = read(None, 0)
    if size > _MAX_STRING:
        return ""
    buffer = ctypes.create_string_buffer(size)
    read(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return buffer.raw[:-2].decode("utf-16-le", "replace").rstrip("\0") if size else ""


def _read_outline(document: Any) -> list[tuple[str, int]]:
    """Return the titles of chapters, each with the number of its page, from 1."""
    chapters: list[tuple[str, int]] = []
    for bookmark in document.get_toc(max_depth=_CHAPTER_LEVELS):
        destination = bookmark.get_dest()
        page = destination and destination.get_index()
        if page is not None and len(chapters) < _MAX_CHAPTERS:
            chapters.append((bookmark.get_title(), page + 1))
    return chapters


if __name__ == "__main__":
    main()
