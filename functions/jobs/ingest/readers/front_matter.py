"""Parses front matter: the metadata at the beginning of a text file, in YAML, TOML or as in Logseq.

People write values that YAML rejects, such as `title: Dune: a novel` and `tags: @work`, and a YAML
parser then rejects the whole block. In that case, each entry is parsed on its own: a value that
YAML rejects is read as plain text, and a line without a key and a value is ignored with a warning.
TOML, which programs write, is read as it is or not at all.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, Final

import yaml

_FRONT_MATTER: Final = re.compile(
    r"\A(?:---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?)^\+\+\+)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_PROPERTIES: Final = re.compile(r"\A(?:[\w-]+::(?:[ \t][^\n]*)?(?:\n|\Z))++(?=\s*\S)")
"""The properties of a Logseq page, such as `tags:: sea, ecology`."""
_KNOWN_PROPERTIES: Final = frozenset(
    [
        *("title", "tags", "tag", "author", "authors", "date", "created", "updated", "url"),
        *("language", "alias", "aliases", "icon", "public", "filters", "id", "collapsed"),
        "exclude-from-graph-view",
    ]
)
"""Properties that are read, or that mean nothing outside Logseq. Others stay in the text."""
_LEADING_TABS: Final = re.compile(r"^\t+", re.MULTILINE)
_FIRST_LINE: Final = 2
"""The line of the file on which the block begins, after `---`."""
_FIRST_KEY: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+[\w-]+:(?:\s|\Z)")
"""How a block must begin to count as front matter if it is not valid YAML."""
_ENTRY_START: Final = re.compile(
    r"([\"']?)(?P<key>[^\s:\"'\[{#-][^\n]*?)\1[ \t]*:(?=\s|\Z)(?P<value>[^\n]*)"
)
"""Matches the first line of an entry, in the groups `key` and `value`."""
_CONTINUATION: Final = (" ", "\t", "-", "]", "}", "#")
"""How the other lines of an entry begin."""
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(\S.*)")
"""Matches a line with an item of a list; group 1 is the item."""
_PLAIN_ITEM: Final = re.compile(r"([ \t]*)-[ \t]+(?![-\[{\"'|>&*?])(?:[^\s:]|:(?=\S)|[ \t]+(?!#))+")
"""Matches a line with an item that is plain text; group 1 is its indentation."""
_CLOSING: Final = {"[": "]", "{": "}", '"': '"', "'": "'"}
"""The brackets and quotation marks that end a value, by those that begin it."""
_PLAIN_TEXT: Final = re.compile(
    r"^((?:title|tags?):[ \t]+|[ \t]*-[ \t]+(?=#))([^\s'\"\[{|>][^\n]*+)$",
    re.MULTILINE | re.IGNORECASE,
)
"""An entry or an item that is plain text: `tags: #book #sf`, `title: Issue #7`, `- #book`."""
_LISTED_TAGS: Final = re.compile(r"^tags?:[ \t]+\[[^\n]*\][ \t]*$", re.MULTILINE | re.IGNORECASE)
_LISTED_HASHTAG: Final = re.compile(r"(?<=[\[,])[ \t]*(#[^\s,\[\]'\"]++)")
"""A tag in an entry such as `tags: [#book, #sf]`, where YAML reads a comment."""
_HASHTAG: Final = re.compile(r"(?<!\S)#[^\s#]")


@dataclass(slots=True)
class FrontMatter:
    """The fields of a block. Keys are lowercase.

    Attributes:
        fields: The values by key: strings, lists and dictionaries.
        line_numbers: Each key's line number in the file.
        warnings: A warning for each line that is ignored.
        text: Lines of the block that belong to the text.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    line_numbers: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    text: str = ""


def match_front_matter(text: str) -> re.Match[str] | None:
    """Match a block that looks like front matter at the start of a text."""
    return _FRONT_MATTER.match(text) or _PROPERTIES.match(text)


def parse_front_matter(match: re.Match[str]) -> FrontMatter | None:
    """Parse a block; return None if it is not front matter, but text between horizontal rules."""
    if match.re is _PROPERTIES:
        return _parse_properties(match[0])
    return _parse_yaml(match["yaml"]) if match["toml"] is None else _parse_toml(match["toml"])


def _parse_properties(block: str) -> FrontMatter | None:
    front_matter = FrontMatter()
    for number, line in enumerate(block.rstrip("\n").split("\n"), start=1):
        key, _, value = line.partition("::")
        if key.lower() in _KNOWN_PROPERTIES:
            front_matter.fields[key.lower()] = value.strip()
            front_matter.line_numbers[key.lower()] = number
        else:
            front_matter.text += f"{key}:{value}\n"
    return front_matter if front_matter.fields else None


def _parse_toml(block: str) -> FrontMatter | None:
    try:
        fields = tomllib.loads(block)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return FrontMatter({key.lower(): _to_texts(value) for key, value in fields.items()})


def _to_texts(value: Any) -> Any:
    """Return a TOML value with texts for numbers and times, as YAML's are read."""
    match value:
        case dict():
            return {key: _to_texts(item) for key, item in value.items()}
        case list():
            return [_to_texts(item) for item in value]
        case date() | time():
            return value.isoformat()
        case bool():
            return str(value).lower()
    return str(value)


def _parse_yaml(block: str) -> FrontMatter | None:
    block = _LEADING_TABS.sub(lambda tabs: "  " * len(tabs[0]), block)
    block = _align_items(block)
    block = _LISTED_TAGS.sub(lambda tags: _LISTED_HASHTAG.sub(r" '\1'", tags[0]), block)
    block = textwrap.dedent(_PLAIN_TEXT.sub(_quote_hashtags, block)).lstrip(" ")
    entries = _split_entries(block)
    front_matter = FrontMatter()
    for line_number, entry in entries:
        if start := _ENTRY_START.match(entry):
            front_matter.line_numbers[start["key"].lower()] = line_number
    try:
        fields = _load(block) or {}
    except _Malformed:
        if not _FIRST_KEY.match(block):
            return None
        for line_number, entry in entries:
            _add_entry(front_matter, line_number, entry)
        return front_matter
    if not isinstance(fields, dict):
        return None
    front_matter.fields = {key.lower(): _restore_wikilinks(fields[key]) for key in fields}
    return front_matter


class _Malformed(ValueError):
    """Raised for text that is not valid YAML; the message says why."""


def _load(text: str) -> Any:
    """Parse YAML into strings, lists and dictionaries.

    Raises:
        _Malformed: The text is not valid YAML.
    """
    try:
        # Keep strings: SafeLoader turns the title `12:30` into 750 and the tag `no` into False.
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 - builds str, list, dict only
    except yaml.MarkedYAMLError as error:
        raise _Malformed(error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _Malformed(error.reason) from error
    except (ValueError, OverflowError) as error:
        raise _Malformed(str(error)) from error
    except RecursionError as error:
        raise _Malformed("nested too deeply") from error


def _align_items(block: str) -> str:
    """Give an item below a plain item its indentation. YAML would read both as one text."""
    lines: list[str] = []
    indentation: str | None = None
    for line in block.split("\n"):
        item = _PLAIN_ITEM.fullmatch(line)
        if item and indentation is not None and item[1].startswith(indentation):
            lines.append(indentation + line.lstrip())
            continue
        indentation = item[1] if item else None
        lines.append(line)
    return "\n".join(lines)


def _quote_hashtags(match: re.Match[str]) -> str:
    """Quote `#book #sf`, which YAML would take for a comment."""
    quoted = match[2].replace("'", "''")
    return f"{match[1]}'{quoted}'" if _HASHTAG.search(match[2]) else match[0]


def _split_entries(block: str) -> list[tuple[int, str]]:
    """Return the number of each entry's first line in the file, and the entry's text."""
    entries: list[tuple[int, list[str]]] = []
    for number, line in enumerate(block.split("\n"), start=_FIRST_LINE):
        if line and not line.startswith(_CONTINUATION):
            entries.append((number, [line]))
        elif entries:
            entries[-1][1].append(line)
    return [(number, "\n".join(lines)) for number, lines in entries]


def _add_entry(front_matter: FrontMatter, line_number: int, entry: str) -> None:
    """Parse an entry on its own, and add as much of it as can be read."""
    start = _ENTRY_START.match(entry)
    try:
        fields = _load(entry)
    except _Malformed:
        fields = None
    if isinstance(fields, dict):
        front_matter.fields |= {key.lower(): _restore_wikilinks(fields[key]) for key in fields}
    elif start and fields is None:
        _salvage_entry(front_matter, line_number, entry, start)
    else:
        front_matter.warnings.append(f"line {line_number}: not a `key: value` pair; line ignored")


def _salvage_entry(
    front_matter: FrontMatter, line_number: int, entry: str, start: re.Match[str]
) -> None:
    """Add the value on the first line of an entry, or else the list items below that line.

    Args:
        front_matter: Receives the value, and a warning for each line that is ignored.
        line_number: The number of the entry's first line in the file.
        entry: The text of the entry, which is not valid YAML.
    """
    key, value = start["key"].lower(), start["value"].strip()
    candidates = [(line_number, value)] if value else []
    problems: list[tuple[int, str]] = []
    for number, text in enumerate(entry.split("\n")[1:], start=line_number + 1):
        item = _ITEM.fullmatch(text)
        if item and not value:
            candidates.append((number, item[1]))
        elif text.strip() and not text.lstrip().startswith("#"):
            problems.append((number, "is not part of a value"))
    values: list[Any] = []
    for number, text in candidates:
        try:
            values.append(_parse_value(text))
        except _Malformed as error:
            problems.append((number, str(error)))
    if values:
        front_matter.fields[key] = values[0] if value else values
    front_matter.warnings += (
        f"line {number}: {key}: {reason}; line ignored" for number, reason in problems
    )


def _parse_value(text: str) -> Any:
    """Parse a value on one line. A value that is not valid YAML is read as text.

    Raises:
        _Malformed: The value is not valid YAML, and it has an unprintable character, or an open
            bracket or quotation mark, which shows that YAML was meant.
    """
    try:
        return _restore_wikilinks(_load(f"key: {text}")["key"])
    except _Malformed:
        closing = _CLOSING.get(text[:1])
        if not text.isprintable() or (closing and closing not in text[1:]):
            raise
        return text


def _restore_wikilinks(value: Any) -> Any:
    """Turn `[[Note]]`, which YAML reads as nested lists, back into text, in lists as well."""
    if isinstance(value, list):
        return _format_wikilink(value) or [_format_wikilink(item) or item for item in value]
    return value


def _format_wikilink(value: Any) -> str | None:
    """Return the wikilink that YAML parsed to nested lists; None for any other value.

    YAML splits the link at commas: `[[Helm, Ann]]` becomes `[["Helm", "Ann"]]`.
    """
    match value:
        case [[*parts]] if parts and all(isinstance(part, str) for part in parts):
            return f"[[{', '.join(parts)}]]"
    return None
