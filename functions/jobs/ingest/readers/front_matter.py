"""YAML front matter: the metadata at the beginning of a text file.

People type what YAML does not accept, such as `title: Dune: a novel` and `tags: @work`, and a YAML
parser then refuses the whole block. In that case each entry is parsed by itself: such a value is
taken as text, and a line that makes no sense is left out with a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE
)
_FIRST_LINE: Final = 2
"""The number in the file of the first line of the block."""
_FIRST_KEY: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+[\w-]+:(?:\s|\Z)")
"""The beginning of a block that is front matter although it is not valid YAML."""
_KEY: Final = re.compile(
    r"([\"']?)(?P<key>[^\s:\"'\[{#-][^\n]*?)\1[ \t]*:(?=\s|\Z)(?P<value>[^\n]*)"
)
"""The first line of an entry."""
_CONTINUATION: Final = (" ", "\t", "-", "]", "}", "#")
"""What the other lines of an entry begin with."""
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(\S.*)")
_CLOSING: Final = {"[": "]", "{": "}", '"': '"', "'": "'"}
_UNQUOTED_TAGS: Final = re.compile(
    r"^(tags?:[ \t]+)([^\s'\"\[{][^\n'\"]*+)$", re.MULTILINE | re.IGNORECASE
)
_HASHTAG: Final = re.compile(r"(?<!\S)#[^\s#]")


@dataclass(slots=True)
class FrontMatter:
    """The fields of a block. Keys are in lower case.

    Attributes:
        fields: The values: strings, lists and dictionaries.
        lines: The number of the line of each key, in the file.
        warnings: A warning for each line that is left out.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def match_front_matter(text: str) -> re.Match[str] | None:
    """Match a block at the beginning of a text that looks like front matter; group 1 is YAML."""
    return _FRONT_MATTER.match(text)


def parse_front_matter(block: str) -> FrontMatter | None:
    """Parse a block; return None if it is text between two horizontal rules."""
    block = _UNQUOTED_TAGS.sub(_quote_hashtags, block)
    entries = _split_entries(block)
    front_matter = FrontMatter()
    for line, entry in entries:
        if key := _KEY.match(entry):
            front_matter.lines[key["key"].lower()] = line
    try:
        fields = _load(block) or {}
    except _Malformed:
        if not _FIRST_KEY.match(block):
            return None
        for line, entry in entries:
            _add_entry(front_matter, line, entry)
        return front_matter
    if not isinstance(fields, dict):
        return None
    front_matter.fields = {key.lower(): _restore_links(value) for key, value in fields.items()}
    return front_matter


class _Malformed(ValueError):
    """Something is not valid YAML; the message says why."""


def _load(text: str) -> Any:
    """Parse YAML to strings, lists and dictionaries.

    Raises:
        _Malformed: It is not valid.
    """
    try:
        # Plain strings: SafeLoader makes 750 of the title `12:30`, and False of the tag `no`.
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506  builds str, list, dict only
    except yaml.MarkedYAMLError as error:
        raise _Malformed(error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _Malformed(error.reason) from error
    except (ValueError, OverflowError) as error:
        raise _Malformed(str(error)) from error
    except RecursionError as error:
        raise _Malformed("nested too deeply") from error


def _quote_hashtags(match: re.Match[str]) -> str:
    """Quote `#book #sf`, which YAML takes for a comment."""
    return f"{match[1]}'{match[2]}'" if _HASHTAG.search(match[2]) else match[0]


def _split_entries(block: str) -> list[tuple[int, str]]:
    """Return the text of each entry, with the number of its first line in the file."""
    entries: list[tuple[int, list[str]]] = []
    for number, line in enumerate(block.split("\n"), start=_FIRST_LINE):
        if line and not line.startswith(_CONTINUATION):
            entries.append((number, [line]))
        elif entries:
            entries[-1][1].append(line)
    return [(number, "\n".join(lines)) for number, lines in entries]


def _add_entry(front_matter: FrontMatter, line: int, entry: str) -> None:
    """Parse an entry by itself, and add it or what can be read of it."""
    key = _KEY.match(entry)
    try:
        fields = _load(entry)
    except _Malformed:
        fields = None
    if isinstance(fields, dict):
        front_matter.fields |= {name.lower(): _restore_links(fields[name]) for name in fields}
    elif key and fields is None:
        _add_by_lines(front_matter, line, entry, key)
    else:
        front_matter.warnings.append(f"line {line}: has no `key: value`; kept without it")


def _add_by_lines(front_matter: FrontMatter, line: int, entry: str, key: re.Match[str]) -> None:
    """Add the value on the first line of an entry, or else the items of a list below it."""
    name, value = key["key"].lower(), key["value"].strip()
    candidates = [(line, value)] if value else []
    problems: list[tuple[int, str]] = []
    for number, text in enumerate(entry.split("\n")[1:], start=line + 1):
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
        front_matter.fields[name] = values[0] if value else values
    front_matter.warnings += (
        f"line {number}: {name}: {reason}; kept without it" for number, reason in problems
    )


def _parse_value(text: str) -> Any:
    """Parse a value on one line; one that is not valid YAML is taken as text.

    Raises:
        _Malformed: It is not valid, and an open bracket or quote shows that YAML was meant.
    """
    try:
        return _restore_links(_load(f"key: {text}")["key"])
    except _Malformed:
        closing = _CLOSING.get(text[:1])
        if not text.isprintable() or (closing and closing not in text[1:]):
            raise
        return text


def _restore_links(value: Any) -> Any:
    """Return a value, or a list of values, with `[[Note]]` as text: YAML reads nested lists."""
    if isinstance(value, list):
        return _join_link(value) or [_join_link(item) or item for item in value]
    return value


def _join_link(value: Any) -> str | None:
    match value:
        case [[*words]] if words and all(isinstance(word, str) for word in words):
            return f"[[{', '.join(words)}]]"
    return None
