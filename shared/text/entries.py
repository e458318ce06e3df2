"""Finds the entries of logs and lists, which stand line below line without blank lines.

An entry is a line with all lines up to the next entry: an event with its stack
trace, an item with its nested items, a row of a table. Each kind is recognised by the lines of a
paragraph:

- a log: a line that is not indented begins with a date, a time or a level, has a time of day with
  seconds near its beginning, or is a JSON object;
- a list: a line begins with a bullet or a number, and no other such line is indented less;
- rows: four lines in five have the same number, at least two, of tabs, bars, semicolons or commas.

What stands above the first entry, such as a title, belongs to it. So does the head of a table.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from shared.text.markup import LIST_ITEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_EVENT: Final = re.compile(
    r"""[\[(<"']?
    (?: \d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T\d|\b) | \d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}\b
      | \d{1,2}:\d{2}\b
      | (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ {1,2}\d{1,2}\b
      | (?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b )
    | \S.{0,60}?\b\d{2}:\d{2}:\d{2}\b
    | \{".*\}\s*$
    """,
    re.VERBOSE,
)
_DELIMITERS: Final = "\t|;,"
_MIN_DELIMITERS: Final = 2
_MIN_ROWS: Final = 4
"""The minimum number of lines of a table, because a few lines of prose may have equal numbers
of commas by chance."""
_MIN_SHARE: Final = 0.8
"""The minimum share of a table's lines that have the same number of delimiters."""


def find_entries(text: str) -> Iterator[int]:
    """Yield the offset of each entry that is not the first of its paragraph, in code points."""
    paragraph: list[tuple[int, str]] = []
    offset = 0
    for line in [*text.splitlines(keepends=True), ""]:
        if line.strip():
            paragraph.append((offset, line))
        elif paragraph:
            offsets, lines = zip(*paragraph, strict=True)
            yield from (offsets[index] for index in _find_first_lines(lines)[1:])
            paragraph = []
        offset += len(line)


def is_event(entry: str) -> bool:
    """Return whether an entry is an event of a log."""
    return bool(_EVENT.match(entry))


def _find_first_lines(lines: Sequence[str]) -> list[int]:
    """Return the indices of the lines with which the entries of a paragraph begin."""
    events = [index for index, line in enumerate(lines) if _EVENT.match(line)]
    if len(events) > 1:
        return events
    indentations = {
        index: len(line) - len(line.lstrip())
        for index, line in enumerate(lines)
        if LIST_ITEM.match(line)
    }
    if len(indentations) > 1:
        least = min(indentations.values())
        return [index for index, width in indentations.items() if width == least]
    if not _has_rows(lines):
        return []
    # The head joins the first row, and a rule below it is no row.
    return [index for index, line in enumerate(lines) if any(map(str.isalnum, line))][1:]


def _has_rows(lines: Sequence[str]) -> bool:
    """Return whether most lines have the same number of one of the delimiters."""
    for delimiter in _DELIMITERS:
        counts = Counter(line.count(delimiter) for line in lines)
        number, rows = counts.most_common(1)[0]
        if number >= _MIN_DELIMITERS and rows >= max(_MIN_ROWS, _MIN_SHARE * len(lines)):
            return True
    return False
