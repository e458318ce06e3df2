"""Markdown and plain text, with YAML front matter or without: one file is one source."""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import yaml

from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Place,
    Record,
    Unreadable,
    read_text,
    validated,
)
from functions.jobs.ingest.readers.fields import About, clean, headline
from shared.domain.names import safe_id
from shared.domain.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 32 * MEGABYTE
"""A file's; forty times as long as a novel, and some twenty times that in memory."""
_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE
)
_FENCE_OR_HEADING: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|^#(?P<heading>[ \t][^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
_YAML_NULLS: Final = ("", "~", "null", "Null", "NULL")


def records(place: Place) -> Iterator[Record]:
    """The file's one record."""
    yield place.name, partial(_source, place)


def _source(place: Place) -> Source:
    about, text = _split(clean(read_text(place.path, MAX_BYTES)))
    if not text:
        raise Unreadable("holds no text")
    title = about.title or _first_heading(text) or PurePosixPath(place.name).stem
    return Source(
        source_id=safe_id(f"file-{place.collection}/{place.name}"),
        title=headline(title) or "Untitled",
        author=about.author,
        category=about.category or "documents",
        tags=about.tags,
        source_url=about.source_url,
        sections=(Section(text, highlighted_at=about.highlighted_at),),
    )


def _split(text: str) -> tuple[About, str]:
    """The front matter and the text after it.

    A rule of dashes may open a text too: only a YAML mapping between two of them is front matter.
    """
    match = _FRONT_MATTER.match(text)
    fields = _parse_yaml(match[1]) if match else {}
    if match is None or not isinstance(fields, dict):
        return About(), text.strip()
    given = {key.lower(): value for key, value in fields.items() if value not in _YAML_NULLS}
    return validated(About, given), text[match.end() :].strip()


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
    """The reason, with the file's line for the block's (which is 0 just below the first `---`)."""
    return Unreadable(f"has malformed front matter at line {line + 2}: {problem}")


def _first_heading(text: str) -> str | None:
    """The first heading of level one; `# ...` in a code block is a comment."""
    for match in _FENCE_OR_HEADING.finditer(text):
        heading = (match["heading"] or "").rstrip()
        bare = heading.rstrip("#")
        if title := (bare if bare.endswith((" ", "\t")) else heading).strip():
            return title
    return None
