"""Reads Markdown and plain text, with or without YAML front matter; each file is one source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers import file_names
from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import (
    MAX_TAGS,
    NoteMetadata,
    clean,
    to_headline,
    to_one_line,
)
from functions.jobs.ingest.readers.formats import Format
from functions.jobs.ingest.readers.front_matter import (
    FrontMatter,
    match_front_matter,
    parse_front_matter,
)
from functions.jobs.ingest.readers.kindle import clippings
from functions.jobs.ingest.readers.links import MAX_LINKS, LinkResolver
from functions.jobs.ingest.readers.markdown import (
    find_title,
    join_markdown,
    read_markdown,
    replace_wikilinks,
)
from functions.jobs.ingest.readers.notion import page as notion_page
from functions.jobs.ingest.readers.readwise import vault_note
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    derive_file_source_id,
)
from functions.jobs.ingest.readers.validation import validate
from shared.knowledge.source import Section, Source
from shared.text.markup import WIKILINK, wikilink_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from functions.jobs.ingest.readers.decoding import DecodedText
    from functions.jobs.ingest.readers.readwise.vault_note import VaultNote

MAX_BYTES: Final = 32 * MEGABYTE
"""The maximum size of a file. Reading it takes about twenty times as much memory."""
_COLOUR: Final = re.compile(
    r"(?=[a-f]*\d)(?:[\da-f]{6}|[\da-f]{8})"
    r"|(?:\d[\da-f]{2,3}|[a-f]\d[\da-f]?\d)|([a-f])\1{2,7}",
    re.IGNORECASE,
)
"""A colour such as `#202bfc` or `#fff`. `#facade`, `#e2e` and `#b2b` are tags."""
_ADDRESS: Final = re.compile(
    r"<(?P<angled>https?://[^<>\s]+)>|\[[^\n]*\]\((?P<linked>https?://[^\s()]+(?:\([^\s()]*\))*)\)"
    r"|https?://.*"
)
"""The address of a page, alone or as a link in Markdown: `<address>`, `[words](address)`."""
_FIRST_BULLET: Final = re.compile(r"\A-[ \t]+((?:[ \t]*+[\w-]++::(?:[ \t][^\n]*+)?(?:\n|\Z))++)")
_INDENTATION: Final = re.compile(r"^[ \t]+", re.MULTILINE)
_YAML_NULLS: Final = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class _Document:
    """A file whose front matter is separated from the text.

    Attributes:
        sections: The text after the front matter, as it is in the file.
        wikilinks: The notes that the front matter links to.
    """

    sections: list[Section]
    origin: str = "file"
    metadata: NoteMetadata = field(default_factory=NoteMetadata)
    wikilinks: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield Record(file.name, partial(_read_source, file))


def _read_source(file: SourceFile) -> Source:
    return make_source(file, read_any_text(file.path, MAX_BYTES))


def make_source(file: SourceFile, content: DecodedText) -> Source:
    """Make the source of a file whose text is given.

    Raises:
        Unreadable: The text is blank, or contains Kindle clippings.
    """
    path = PurePosixPath(file.relative_path)
    text, warnings = content
    is_markdown = path.suffix.lower() != ".txt"
    is_notion = is_markdown and bool(file_names.NOTION_ID.search(path.stem))
    parse = notion_page.parse if is_notion else vault_note.parse if is_markdown else None
    graph = file.path.parent.parent
    in_graph = is_markdown and (graph / "logseq" / "config.edn").is_file()
    document = _split_front_matter(clean(text), parse, in_graph=in_graph)
    metadata, sections = document.metadata, document.sections
    warnings += document.warnings
    resolver = file.link_resolver or _make_download_resolver(file)
    in_vault = is_markdown and resolver.vault is not None
    links_to: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    if is_markdown:
        parts = [
            read_markdown(section.text, in_vault=in_vault, in_graph=in_graph)
            for section in sections
        ]
        markdown = join_markdown(parts)
        markdown.wikilinks = document.wikilinks + markdown.wikilinks
        links_to = resolver.resolve(markdown)
        tags = tuple(_select_tags(markdown.tags, metadata.tags))
        sections = [
            replace(
                section,
                text=(notion_page.drop_addresses(part.text) if is_notion else part.text).strip(),
            )
            for section, part in zip(sections, parts, strict=True)
        ]
    text = sections[0].text if sections else ""
    if not any(section.text for section in sections) and not (in_vault or in_graph):
        raise Unreadable("has no text")
    if not is_markdown and clippings.recognizes(text):
        raise Unreadable(f"contains Kindle clippings: rename it to `{clippings.NAME}`")
    if len(links_to) > MAX_LINKS:
        warnings += (f"links to {len(links_to):,} files; the first {MAX_LINKS} links are kept",)
    title = metadata.title or find_title(text) or file_names.find_title(path.stem)
    written_at = (
        metadata.date or metadata.created or metadata.updated or file_names.find_date(path.stem)
    )
    dated = tuple(
        replace(
            section,
            highlighted_at=metadata.highlighted_at or metadata.date,
            written_at=written_at,
            saved_at=file.modified_at,
        )
        for section in sections
        if section.text
    )
    if not dated:  # Empty notes are common in vaults, so they are no failures.
        warnings += ("has no text; nothing of it is stored",)
    return Source(
        source_id=file.source_id,
        title=to_headline(title) or "Untitled",
        origin=document.origin,
        tags=(*metadata.tags, *tags),
        **metadata.source_fields,
        sections=dated,
        links_to=links_to[:MAX_LINKS] or None,
        markdown=is_markdown or None,
        warnings=warnings,
    )


def _make_download_resolver(file: SourceFile) -> LinkResolver:
    """Return a resolver that derives ids for any text file of a download's collection."""

    def get_source_id(linked_file: PurePath) -> str | None:
        if ".." in linked_file.parts or linked_file.suffix.lower() not in FORMAT.extensions:
            return None
        return derive_file_source_id(file.collection, str(linked_file))

    return LinkResolver(PurePosixPath(file.relative_path), get_source_id)


def _split_front_matter(
    text: str, parse: Callable[[str], VaultNote | None] | None, *, in_graph: bool
) -> _Document:
    """Separate the metadata from the text, if a leading `---` is not a horizontal rule.

    Args:
        parse: Parses metadata that another program may have written below the front matter.
        in_graph: Whether the file is in a graph of Logseq.
    """
    if in_graph:  # the properties of a page may be in its first bullet
        text = _FIRST_BULLET.sub(lambda bullet: f"{_INDENTATION.sub('', bullet[1])}\n", text)
    match = match_front_matter(text)
    front_matter = parse_front_matter(match) if match else None
    if match is None or front_matter is None:
        front_matter, metadata_end = FrontMatter(), 0
    else:
        metadata_end = match.end()
    others = "" if in_graph else front_matter.text
    body = f"{others}\n{text[metadata_end:].strip()}".strip()
    note = parse(body) if parse else None
    fields = (note.fields if note else {}) | {
        key: value for key, value in front_matter.fields.items() if value not in _YAML_NULLS
    }
    fields = {key: _replace_wikilinks(value) for key, value in fields.items()}
    for name in ("url", "source_url", "source", "link"):
        if isinstance(value := fields.get(name), str) and (address := _ADDRESS.fullmatch(value)):
            fields[name] = address["angled"] or address["linked"] or value
            fields.setdefault("url", fields[name])  # as Obsidian's Web Clipper writes `source`
    metadata, faults = validate(NoteMetadata, fields, set(fields))
    warnings = front_matter.warnings + [
        f"line {front_matter.line_numbers.get(str(name), 1)}: {name}: {reason}; field ignored"
        for (name, *_), reason in faults
    ]
    linking = text if note else text[:metadata_end]
    return _Document(
        note.sections if note else [Section(body)],
        note.origin if note else "file",
        metadata,
        [wikilink_target(link["wiki"]) for link in WIKILINK.finditer(linking)],
        tuple(warnings),
    )


def _replace_wikilinks(value: Any) -> Any:
    """Replace wikilinks in a value, or in each value of a list."""
    if isinstance(value, list):
        return [replace_wikilinks(item) if isinstance(item, str) else item for item in value]
    return replace_wikilinks(value) if isinstance(value, str) else value


def _select_tags(names: Iterable[str], known_tags: Sequence[str]) -> Iterator[str]:
    """Yield the tags of a text that are neither colours nor among those known."""
    keys = {tag.casefold() for tag in known_tags}
    for name in names:
        tag = to_one_line(name).strip("/")
        if (
            tag
            and not _COLOUR.fullmatch(tag)
            and tag.casefold() not in keys
            and len(keys) < MAX_TAGS
        ):
            keys.add(tag.casefold())
            yield tag


FORMAT: Final = Format(
    name="Markdown or text",
    extensions=(".md", ".markdown", ".txt"),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages",
        "title": "the title; if missing, the first level-one heading, or else the file's name",
        "author, authors": "the author",
        "tags, tag": "tags: a list, or a text divided by commas or spaces; `#tags` in the passages,"
        " too",
        "category": "the category",
        "language, lang": "the language",
        "source_url, url, source, link": "the address of the original",
        "date, highlighted_at": "the date of the passages, as 2024-05-31, 31.05.2024 or"
        " May 31, 2024; 06/01/2024"
        " is none, as it may be in June or in January",
        "created, updated, modified": "the date when the text is first stored; if it is missing or"
        " not understood, a date in the file's name such as `2024-05-31`, `202405311642` or"
        " `May 31, 2024`, or else the file's date",
        "`[[Note]]`, `[[Note#Part]]`, `[words](other.md)`": "links to other sources; in an Obsidian"
        " vault by name and by `aliases`, elsewhere by path",
        "`[words][label]` with `[label]: address`": "`[words](address)`",
        "`![[Note]]`, `<!-- comment -->`; in a vault `%% comment %%`, `^block-id`, queries, and"
        " Excalidraw drawings": "left out",
        "`## Metadata`, `## Highlights` of Readwise": "in its Markdown and in a vault: title,"
        " author, category, tags and address; each highlight a passage with its note, tags, place"
        " and chapter",
        "the lines below the title of a Notion page": "Tags, URL, Author, Date and Created are"
        " fields; others stay in the text",
        "in Logseq `title::`, `tags::`, `author::`, `date::`, `url::` at the top": "as in front"
        " matter; ids, references and embeds of blocks, queries, and log books are left out,"
        " and in a graph (a folder with `logseq` in it) other properties and dates of tasks",
    },
    example="---\ntitle: On tests\ntags: [testing]\n---\nA flaky test is worse than none. #ci\n"
    "See [the runner](runner.md).\n",
)
