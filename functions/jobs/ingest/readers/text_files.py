"""Markdown and plain text, with or without YAML front matter: each file is one source."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import yaml

from functions.jobs.ingest.readers import kindle_clippings
from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    read_text,
    validated,
)
from functions.jobs.ingest.readers.fields import MAX_TAGS, DocumentMetadata, Moment, clean, headline
from functions.jobs.ingest.readers.formats import Format
from shared.core.ids import safe_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_BYTES: Final = 32 * MEGABYTE
"""Larger files are refused: reading one takes about twenty times its size in memory."""
_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE
)
_FENCE_OR_HEADING: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|^#(?P<heading>[ \t][^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
_CODE: Final = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+).*?(?:^[ \t>]*(?P=fence)|\Z)"  # fenced
    r"|(?<=\n\n)(?:    |\t)[^\n]*(?:\n(?:    |\t)[^\n]*)*"  # indented
    r"|(?<!`)(?P<ticks>`++)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)",  # in a line
    re.DOTALL | re.MULTILINE,
)
_INLINE_TAG: Final = re.compile(r"(?<!\S)#(?=[\w/-]*[^\W\d_])([\w/-]{1,100})(?![\w/-])")
_DATE_IN_NAME: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_YAML_NULLS: Final = ("", "~", "null", "Null", "NULL")


class _FrontMatter(DocumentMetadata):
    """The metadata in a file's front matter."""

    created: Moment = None
    updated: Moment = None


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the only record of a file."""
    yield file.name, partial(_source, file)


def source_id_of(collection: str, key: str, number: int = 1) -> str:
    """Return the id of the source of a file.

    Args:
        collection: The prefix of ids of its folder.
        key: Its path below that folder.
        number: 1 for the first file with this path, 2 for another one. A NUL character, which
            cannot be in a path, separates it.
    """
    path = f"{collection}/{key}" if number == 1 else f"{collection}/{key}\0{number}"
    return safe_id(f"file-{path}")


def _source(file: SourceFile) -> Source:
    about, text, warnings = _split(clean(read_text(file.path, MAX_BYTES)))
    if not text:
        raise Unreadable("has no text")
    path = PurePosixPath(file.key)
    if path.suffix.lower() == ".txt" and kindle_clippings.recognizes(text):
        raise Unreadable(f"has clippings of a Kindle: rename it to `{kindle_clippings.NAME}`")
    title = about.title or _first_heading(text) or path.stem
    inline_tags = () if path.suffix.lower() == ".txt" else _inline_tags(text, about.tags)
    section = Section(
        text,
        highlighted_at=about.highlighted_at,
        written_at=about.created or about.updated or _date_in(path.stem) or file.modified_at,
    )
    return Source(
        source_id=file.source_id or source_id_of(file.collection, file.key),
        title=headline(title) or "Untitled",
        tags=(*about.tags, *inline_tags),
        **about.source_fields,
        sections=(section,),
        warnings=warnings,
    )


def _split(text: str) -> tuple[_FrontMatter, str, tuple[str, ...]]:
    """Return the front matter, the text after it, and what is wrong with the front matter.

    A text may also begin with a horizontal rule (`---`): only a YAML mapping between two such lines
    is front matter. A block that is not valid YAML is kept as text, with a warning.
    """
    match = _FRONT_MATTER.match(text)
    try:
        fields = _parse_yaml(match[1]) if match else None
    except Unreadable as error:
        return _FrontMatter(), text.strip(), (f"{error}; kept as text",)
    if match is None or not isinstance(fields, dict):
        return _FrontMatter(), text.strip(), ()
    given = {key.lower(): value for key, value in fields.items() if value not in _YAML_NULLS}
    about, faults = validated(_FrontMatter, given, set(given))
    lines = _lines_of_keys(match[1]) if faults else {}
    warnings = (
        f"line {lines[str(field)]}: {field}: {reason}; kept without it"
        for (field, *_), reason in faults
    )
    return about, text[match.end() :].strip(), tuple(warnings)


def _lines_of_keys(block: str) -> dict[str, int]:
    """Return the line number in the file of each key of its front matter."""
    mapping: Any = yaml.compose(block, yaml.BaseLoader)
    return {key.value.lower(): key.start_mark.line + 2 for key, _ in mapping.value}


def _parse_yaml(block: str) -> Any:
    try:
        # Plain strings: SafeLoader makes 750 of the title `12:30`, and False of the tag `no`.
        return yaml.load(block, yaml.BaseLoader) or {}  # noqa: S506  builds str, list, dict only
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _malformed(line, error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _malformed(block.count("\n", 0, error.position), error.reason) from error
    except (ValueError, OverflowError) as error:
        raise _malformed(0, str(error)) from error
    except RecursionError as error:
        raise _malformed(0, "nested too deeply") from error


def _malformed(line: int, problem: str | None) -> Unreadable:
    """Make the error, with the line in the file (from 1) for the line in the block (from 0)."""
    return Unreadable(f"has malformed front matter at line {line + 2}: {problem}")


def _first_heading(text: str) -> str | None:
    """Return the first heading of level one; `# ...` in a code block is a comment."""
    for match in _FENCE_OR_HEADING.finditer(text):
        heading = (match["heading"] or "").rstrip()
        bare = heading.rstrip("#")
        if title := (bare if bare.endswith((" ", "\t")) else heading).strip():
            return title
    return None


def _inline_tags(text: str, tags: Sequence[str]) -> Iterator[str]:
    """The tags in a text outside code, such as #travel or #2024/plans, that are not given yet."""
    keys = {tag.casefold() for tag in tags}
    for match in _INLINE_TAG.finditer(_CODE.sub("`", text)):
        tag = match[1].strip("/")
        if tag.casefold() not in keys and len(keys) < MAX_TAGS:
            keys.add(tag.casefold())
            yield tag


def _date_in(name: str) -> datetime | None:
    """Return the first date in a file's name, such as 2024-05-31 or 20240531.

    Years before 1900 are ignored: they are more likely the file's subject.
    """
    for match in _DATE_IN_NAME.finditer(name):
        year, _, month, day = match.groups()
        try:
            return datetime(int(year), int(month), int(day), tzinfo=UTC)
        except ValueError:  # not a real date
            continue
    return None


FORMAT: Final = Format(
    name="Markdown or text",
    endings=(".md", ".markdown", ".txt"),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "text": "the passages",
        "title": "the title; else the first heading of level one, else the file's name",
        "author": "the author",
        "tags": "tags; `#tags` in the text too",
        "category": "the category",
        "language, lang": "the language",
        "source_url, url": "the address of the original",
        "date, highlighted_at": "the date of the passages",
        "created, updated": "the date, when the text is first stored; else a date in the file's"
        " name, else the file's own",
    },
    example="---\ntitle: On tests\ntags: [testing]\n---\nA flaky test is worse than none. #ci\n",
)
