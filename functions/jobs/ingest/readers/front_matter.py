"""YAML front matter: the metadata at the beginning of a text file, also as people type it.

YAML refuses a block for one bad line. Then each entry is read by itself: a line that is not YAML is
text, such as `title: Dune: a novel` and `tags: @work`, or else it alone is lost.
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
"""How a block begins that is front matter even if it is not valid YAML."""
_KEY: Final = re.compile(
    r"([\"']?)(?P<key>[^\s:\"'\[{#-][^\n]*?)\1[ \t]*:(?=\s|\Z)(?P<value>[^\n]*)"
)
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(\S.*)")
_CLOSING: Final = {"[": "]", "{": "}", '"': '"', "'": "'"}
_HASHTAGS: Final = re.compile(
    r"^(tags?:[ \t]+)((?:[^\s'\"\[{#][^\n'\"]*[ \t])?#[^\s#'\"][^\n'\"]*)$",
    re.MULTILINE | re.IGNORECASE,
)
"""Tags as they are written in texts. For YAML they are a comment."""


@dataclass(slots=True)
class FrontMatter:
    """The fields of a block.

    Attributes:
        fields: Their values, which are texts, lists and dictionaries, by keys in lower case.
        lines: The line of each key in the file.
        warnings: What is wrong with the entries that were lost, with their lines.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def match_front_matter(text: str) -> re.Match[str] | None:
    """Match a block at the beginning of a text that looks like front matter; group 1 is YAML."""
    return _FRONT_MATTER.match(text)


def parse_front_matter(block: str) -> FrontMatter | None:
    """Parse a block; return None if it is text between two horizontal rules."""
    block = _HASHTAGS.sub(r"\1'\2'", block)
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


def _split_entries(block: str) -> list[tuple[int, str]]:
    """Return each entry, with its continuation lines and its line in the file."""
    entries: list[tuple[int, str]] = []
    for line, text in enumerate(block.split("\n"), start=_FIRST_LINE):
        is_continuation = not text or text.startswith((" ", "\t", "-", "]", "}", "#"))
        if entries and is_continuation:
            first, entry = entries[-1]
            entries[-1] = first, f"{entry}\n{text}"
        elif not is_continuation:
            entries.append((line, text))
    return entries


def _add_entry(front_matter: FrontMatter, line: int, entry: str) -> None:
    """Add an entry, or what can be read of it."""
    key = _KEY.match(entry)
    if not key:
        front_matter.warnings.append(f"line {line}: has no `key: value`; kept without it")
        return
    try:
        fields = _load(entry)
    except _Malformed:
        _add_by_lines(front_matter, line, entry, key)
    else:
        front_matter.fields |= {name.lower(): _restore_links(fields[name]) for name in fields}


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
    """Parse a value on one line; what is not YAML is text, unless a bracket or a quote is open.

    Raises:
        _Malformed: It can be neither.
    """
    try:
        return _restore_links(_load(f"key: {text}")["key"])
    except _Malformed:
        closing = _CLOSING.get(text[:1])
        if not text.isprintable() or (closing and closing not in text[1:]):
            raise
        return text


def _restore_links(value: Any) -> Any:
    """Restore the text of `[[Note]]`, which is a list in a list for YAML, in a value or a list."""
    if isinstance(value, list):
        return _join_link(value) or [_join_link(item) or item for item in value]
    return value


def _join_link(value: Any) -> str | None:
    match value:
        case [[*words]] if words and all(isinstance(word, str) for word in words):
            return f"[[{', '.join(words)}]]"
    return None
