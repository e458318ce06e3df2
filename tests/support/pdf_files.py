"""A minimal PDF writer: pages of lines in Helvetica, metadata, an outline and annotations.

It writes the objects of PDF 1.7 (ISO 32000-1) that Carrel's reader of PDF files reads.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEFT, TOP, LEADING, SIZE = 72, 720, 16, 11
"""The left margin, the first baseline, the line spacing and the font size, in points."""
LINE_WIDTH = 460
"""The width of the box of an annotated line, in points."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation of a page.

    Attributes:
        subtype: Its type, such as `Highlight` or `Text`.
        page: The index of its page, from 0.
        lines: The indexes of the lines that it covers, from 0.
        note: The note of the reader.
        modified: The date of its last change, such as `D:20240531164153Z`.
        left: The left edge of its boxes, in points.
        right: The right edge of its boxes, in points.
    """

    subtype: str
    page: int
    lines: Sequence[int] = ()
    note: str = ""
    modified: str = ""
    left: float = LEFT
    right: float = LEFT + LINE_WIDTH


@dataclass(slots=True)
class _Objects:
    """The objects of a file. An object's number is its position, from 1."""

    bodies: list[bytes] = field(default_factory=list)

    def add(self, body: bytes = b"") -> int:
        self.bodies.append(body)
        return len(self.bodies)

    def replace(self, number: int, body: bytes) -> None:
        self.bodies[number - 1] = body

    def build_file(self, trailer: bytes) -> bytes:
        data = bytearray(b"%PDF-1.7\n")
        offsets = []
        for number, body in enumerate(self.bodies, start=1):
            offsets.append(len(data))
            data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        start = len(data)
        data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1)
        data += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        data += b"trailer\n<< /Size %d %b >>\n" % (len(offsets) + 1, trailer)
        return bytes(data + b"startxref\n%d\n%%%%EOF\n" % start)


def make_pdf(  # noqa: PLR0913 - the parts of a file
    *pages: Sequence[str],
    info: Mapping[str, str] | None = None,
    outline: Sequence[tuple[str, int]] = (),
    annotations: Sequence[Annotation] = (),
    language: str = "",
    encrypted: bool = False,
    packed_content: bytes | None = None,
    picture: bytes = b"",
    labels: bytes = b"",
    rotation: int = 0,
    form: Mapping[str, str] | None = None,
) -> bytes:
    """Write a PDF.

    Args:
        pages: The lines of each page; "" leaves a gap.
        info: The entries of the document information dictionary, such as `Title`, by key.
        outline: The title of each chapter, and the index of its page, from 0.
        annotations: The annotations.
        language: The language of the catalogue.
        encrypted: Whether the file asks for a password.
        packed_content: The content of every page, packed by zlib, in place of its lines.
        picture: The gray values of a picture of 1,000 pixels a line; each page has its own copy.
        labels: The number tree of the labels of pages, such as `0 << /S /r >>`.
        rotation: By how many degrees pages are turned clockwise when they are shown.
        form: The texts in form fields of the first page, by the label that viewers show.
    """
    objects = _Objects()
    catalog, tree, font = objects.add(), objects.add(), objects.add()
    objects.replace(
        font, b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    )
    page_numbers = [objects.add() for _ in pages]
    fields = [
        objects.add(_format_field(number, *item))
        for number, item in enumerate((form or {}).items())
    ]
    for index, (number, lines) in enumerate(zip(page_numbers, pages, strict=True)):
        content = objects.add(_format_stream(packed_content or zlib.compress(_format_lines(lines))))
        pictures = b"/XObject << /P %d 0 R >>" % _add_picture(objects, picture) if picture else b""
        annotation_numbers = [
            objects.add(_format_annotation(annotation))
            for annotation in annotations
            if annotation.page == index
        ] + (fields if index == 0 else [])
        objects.replace(
            number,
            b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] /Rotate %d /Contents %d 0 R"
            b" /Resources << /Font << /F1 %d 0 R >> %b >> /Annots [%b] >>"
            % (tree, rotation, content, font, pictures, _format_references(annotation_numbers)),
        )
    objects.replace(
        tree,
        b"<< /Type /Pages /Kids [%b] /Count %d >>"
        % (_format_references(page_numbers), len(page_numbers)),
    )
    entries = b"/Type /Catalog /Pages %d 0 R" % tree
    if outline:
        entries += b" /Outlines %d 0 R" % _add_outline(objects, outline, page_numbers)
    if fields:
        entries += b" /AcroForm << /Fields [%b] >>" % _format_references(fields)
    if language:
        entries += b" /Lang " + _format_string(language)
    if labels:
        entries += b" /PageLabels << /Nums [%b] >>" % labels
    objects.replace(catalog, b"<< %b >>" % entries)
    trailer = b"/Root %d 0 R" % catalog
    if info:
        items = b" ".join(b"/%b %b" % (key.encode(), _format_string(info[key])) for key in info)
        trailer += b" /Info %d 0 R" % objects.add(b"<< %b >>" % items)
    if encrypted:
        # No password has these values of the entries O and U.
        security = b"/Filter /Standard /V 1 /R 2 /P -4 /O <%b> /U <%b>" % (b"4f" * 32, b"55" * 32)
        identifier = b"[<%b> <%b>]" % (b"49" * 16, b"49" * 16)
        trailer += b" /ID %b /Encrypt %d 0 R" % (identifier, objects.add(b"<< %b >>" % security))
    return objects.build_file(trailer)


def _add_picture(objects: _Objects, picture: bytes) -> int:
    """Add a picture, and return the number of its object."""
    size = b"/Width 1000 /Height %d" % (len(picture) // 1000)
    kind = b"/Type /XObject /Subtype /Image /ColorSpace /DeviceGray /BitsPerComponent 8"
    return objects.add(
        b"<< %b %b /Length %d >>\nstream\n%b\nendstream" % (kind, size, len(picture), picture)
    )


def _format_stream(packed: bytes) -> bytes:
    return b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed)


def _format_lines(lines: Sequence[str]) -> bytes:
    drawn = b"".join(
        b"1 0 0 1 %d %d Tm (%b) Tj\n" % (LEFT, TOP - LEADING * number, _escape(line))
        for number, line in enumerate(lines)
        if line
    )
    return b"BT /F1 %d Tf\n%b\nET\n/P Do" % (SIZE, drawn)


def _escape(line: str) -> bytes:
    data = line.encode("cp1252")
    return data.replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")


def _format_string(text: str) -> bytes:
    return b"<%b>" % (b"\xfe\xff" + text.encode("utf-16-be")).hex().encode()


def _format_references(numbers: Sequence[int]) -> bytes:
    return b" ".join(b"%d 0 R" % number for number in numbers)


def _format_annotation(annotation: Annotation) -> bytes:
    boxes = [_compute_box(annotation, line) for line in annotation.lines]
    entries = b"/Type /Annot /Subtype /%b" % annotation.subtype.encode()
    if boxes:
        entries += b" /Rect [%.1f %d %.1f %d]" % boxes[0]
    if annotation.subtype != "Text":
        entries += b" /QuadPoints [%b]" % b" ".join(map(_format_quad, boxes))
    if annotation.note:
        entries += b" /Contents " + _format_string(annotation.note)
    if annotation.modified:
        entries += b" /M (%b)" % annotation.modified.encode()
    return b"<< %b >>" % entries


def _format_field(number: int, label: str, text: str) -> bytes:
    entries = b"/Type /Annot /Subtype /Widget /FT /Tx /Rect [0 0 9 9]"
    values = number, _format_string(label), _format_string(text)
    return b"<< %b /T (%d) /TU %b /V %b >>" % (entries, *values)


def _compute_box(annotation: Annotation, line: int) -> tuple[float, int, float, int]:
    """Return the left, bottom, right and top of a line, from its baseline to its capitals.

    Some viewers mark only this part of a line. Commas extend below it.
    """
    baseline = TOP - LEADING * line
    return annotation.left, baseline, annotation.right, baseline + SIZE - 3


def _format_quad(box: tuple[float, int, float, int]) -> bytes:
    """Return the corners in the order in which programs write them: a Z, not a circle."""
    left, bottom, right, top = box
    corners = (left, top, right, top, left, bottom, right, bottom)
    return b" ".join(b"%.1f" % number for number in corners)


def _add_outline(
    objects: _Objects, entries: Sequence[tuple[str, int]], pages: Sequence[int]
) -> int:
    root = objects.add()
    items = [objects.add() for _ in entries]
    for position, (number, (title, page)) in enumerate(zip(items, entries, strict=True)):
        body = b"/Title %b /Parent %d 0 R /Dest [%d 0 R /Fit]" % (
            _format_string(title),
            root,
            pages[page],
        )
        if position:
            body += b" /Prev %d 0 R" % items[position - 1]
        if position + 1 < len(items):
            body += b" /Next %d 0 R" % items[position + 1]
        objects.replace(number, b"<< %b >>" % body)
    objects.replace(
        root,
        b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>"
        % (items[0], items[-1], len(items)),
    )
    return root
