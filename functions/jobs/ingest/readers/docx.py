"""Reads Word documents. Their comments become notes.

mammoth converts a document to HTML with headings, lists, tables and footnotes. It is maintained,
has a BSD-2-Clause license, and opens no other file. It does not know which text a comment is about,
so that is read here (ECMA-376 Part 1, 17.13.4).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from xml.parsers.expat import ExpatError
from zipfile import ZipFile

from functions.jobs.ingest.readers import file_names
from functions.jobs.ingest.readers.archives import open_archive
from functions.jobs.ingest.readers.fields import clean, parse_moment, to_headline
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.html.blocks import get_local_name
from functions.jobs.ingest.readers.html.inline_markup import replace_inline_markup
from functions.jobs.ingest.readers.html.page import HEADING, join_blocks
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.pdf.metadata import parse_metadata
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from functions.jobs.ingest.readers.xml_parts import find_elements, parse_xml
from shared.knowledge.source import Locator, Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from functions.jobs.ingest.readers.html.blocks import Element

MAX_BYTES: Final = 100 * MEGABYTE
"""The maximum size of a file. Large files consist mostly of pictures, which are not read."""
_OLE: Final = b"\xd0\xcf\x11\xe0"
"""The signature of a file that Word encrypted or saved in its old .doc format."""
_STYLES: Final = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => h2:fresh"
_FAULTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ExpatError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What mammoth raises for a document that does not follow the standard."""


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a document."""
    yield Record(file.name, partial(_make_source, file))


def _make_source(file: SourceFile) -> Source:
    parts, copy = _parse_parts(file.path)
    properties = parts.get("coreproperties")
    names = {"Title": _find_text(properties, "title"), "Author": _find_text(properties, "creator")}
    metadata = parse_metadata(names, _find_text(properties, "language"), None)
    body = _convert(copy)
    first = next((element for element in body if "".join(element.itertext()).strip()), None)
    heading = first.text_content() if first is not None and HEADING.fullmatch(first.tag) else ""
    stem = file_names.find_title(PurePosixPath(file.relative_path).stem)
    title = to_headline(metadata.title or heading or stem)
    text, locators = join_blocks(body, title)
    created = _find_text(properties, "created") or _find_text(properties, "modified")
    section = Section(
        text, locators=locators, written_at=_parse_date(created), saved_at=file.modified_at
    )
    sections = [section, *_read_comments(parts, section)]
    if not any(section.text for section in sections):
        raise Unreadable("has no text: it may consist of pictures")
    return Source(
        source_id=file.source_id,
        title=title or "Untitled",
        **metadata.source_fields,
        sections=tuple(section for section in sections if section.text),
    )


def _parse_parts(path: Path) -> tuple[dict[str, Element], BytesIO]:
    """Parse all XML in a document, so that mammoth opens nothing hostile or too large.

    Returns:
        The parts by the names of their root elements, and a copy of the document with them alone,
        in which the letters of equations, which mammoth does not know, are text.

    Raises:
        Unreadable: The file is not a document, or is damaged, encrypted, too large or hostile.
    """
    if reason := describe_excess(path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            raise Unreadable("needs a password, or is an old .doc file: save a copy as .docx")
    with open_archive(path) as archive:
        names = [name for name in archive.names if name.endswith((".xml", ".rels"))]
        trees = {name: parse_xml(archive.read(name)) for name in names}
    from lxml.etree import tostring  # only here, because it is heavy

    copy = BytesIO()
    with ZipFile(copy, "w") as target:
        for name, tree in trees.items():
            _replace_equations(tree)
            target.writestr(name, tostring(tree))
    return {get_local_name(tree): tree for tree in trees.values()}, copy


def _replace_equations(tree: Element) -> None:
    """Turn each equation into a run of text."""
    from lxml.etree import SubElement

    for equation in list(find_elements(tree, "omath")):
        text, tail = "".join(_list_texts(equation)), equation.tail
        paragraph = next(equation.iterancestors("{*}p"), None)
        if paragraph is None:
            continue
        namespace = paragraph.tag.partition("}")[0]
        equation.clear()
        equation.tag, equation.tail = f"{namespace}}}r", tail
        SubElement(equation, f"{namespace}}}t").text = text
        parent = equation.getparent()
        if parent is not None and get_local_name(parent) == "omathpara":
            parent.tag = f"{namespace}}}smartTag"


def _convert(document: BytesIO) -> Element:
    """Convert a document to HTML."""
    import mammoth
    from lxml import etree
    from lxml import html as lxml_html

    try:
        html = mammoth.convert_to_html(
            document,
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=lambda _image: [],
        ).value
    except _FAULTS as error:
        raise Unreadable("is damaged or not a Word document: save it again") from error
    body = lxml_html.fragment_fromstring(clean(html), create_parent="div")
    for arrow in body.xpath(
        "//a[starts-with(@href, '#footnote-ref') or starts-with(@href, '#endnote-ref')]"
    ):
        arrow.text = None
    for cell in body.iter("td", "th"):  # a row is one line
        for paragraph in cell.iter("p", "br"):
            paragraph.tail = f" {paragraph.tail or ''}"
        etree.strip_tags(cell, "p", "br")
    replace_inline_markup(body)
    return body


def _read_comments(parts: dict[str, Element], body: Section) -> Iterator[Section]:
    """Yield a note for each comment: the text it is about, its author, and what it says."""
    if "comments" not in parts:
        return
    quotations = _read_quotations(parts["document"])
    for comment in find_elements(parts["comments"], "comment"):
        paragraphs = ("".join(_list_texts(part)) for part in find_elements(comment, "p"))
        note = clean("\n".join(paragraphs)).strip()
        quotation = clean(quotations.get(_get(comment, "id"), "")).strip()
        author = _get(comment, "author")
        is_found = bool(quotation) and body.text.count(quotation) == 1
        chapter = body.find_locator(body.text.find(quotation)).chapter if is_found else None
        yield Section(
            PARAGRAPH.join(
                filter(None, (quotation, f"{author}: {note}" if author and note else note))
            ),
            highlighted_at=_parse_date(_get(comment, "date")),
            locators=((0, Locator(chapter=chapter)),) if chapter else (),
        )


def _read_quotations(document: Element) -> dict[str, str]:
    """Return the text that each comment is about, by the comment's id."""
    open_ids: set[str] = set()
    texts: dict[str, str] = defaultdict(str)
    for element in document.iter():
        match get_local_name(element):
            case "commentrangestart":
                open_ids.add(_get(element, "id"))
            case "commentrangeend":
                open_ids.discard(_get(element, "id"))
            case "t" | "tab" | "br" | "p" as tag if open_ids:
                text = (element.text or "") if tag == "t" else "\n" if tag == "p" else " "
                for comment_id in open_ids:
                    texts[comment_id] += text
    return texts


def _list_texts(element: Element) -> Iterator[str]:
    return (text.text or "" for text in find_elements(element, "t"))


def _get(element: Element, name: str) -> str:
    """Return an attribute of any namespace, or "" if it is missing."""
    values = (value for key, value in element.attrib.items() if key.rpartition("}")[2] == name)
    return str(next(values, ""))


def _find_text(properties: Element | None, name: str) -> str:
    elements = () if properties is None else find_elements(properties, name)
    return next((element.text or "" for element in elements), "").strip()


def _parse_date(text: str) -> datetime | None:
    with suppress(ValueError):
        return parse_moment(text)
    return None


FORMAT: Final = Format(
    name="Word document",
    extensions=(".docx",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages, with lists, tables and footnotes; pictures, deleted text and the"
        " structure of equations are left out",
        "headings": "the chapter of a passage",
        "comments": "separate passages: the text they are about, an empty line, the author and what"
        " they say, with their date, and their chapter if that text occurs once",
        "title": "the title; if it is missing or was set by a program, the heading at the top, or"
        " else the file's name",
        "author, language": "the author and the language; account names are left out",
        "created, modified": "the date of a new text; if missing, the file's date",
    },
    example="Sails.docx: 12 pages with headings, a table and two comments\n",
)
