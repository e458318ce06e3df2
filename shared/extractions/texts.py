"""Formats extractions as text that a model can use and cite."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.model import Step
from shared.extractions.views import Attribution, WithId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.extractions.views import LookupAnswer, ResultT

_INDENT: Final = "   "
_COMMON_FIELDS: Final = {*Attribution.model_fields, *WithId.model_fields}
"""These fields of a result do not belong to its content."""


def format_answer(answer: LookupAnswer[ResultT]) -> str:
    """Format an answer as text: its message, its extractions, and how to get the next page."""
    paragraphs = [answer.metadata.message] if answer.metadata.message else []
    paragraphs += [
        f"{number}. {format_extraction(result)}"
        for number, result in enumerate(answer.results, start=1)
    ]
    if cursor := answer.metadata.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {cursor}")
    return "\n\n".join(paragraphs)


def format_extraction(result: Attribution) -> str:
    """Format an extraction as text under its name, which is the first field of its content.

    The other lines are indented, so that text inside an extraction cannot be mistaken for the start
    of another.
    """
    names = [name for name in type(result).model_fields if name not in _COMMON_FIELDS]
    (_, heading), *others = [(name, value) for name in names if (value := getattr(result, name))]
    lines = [line for name, value in others for line in _format_field(name, value)]
    lines.append(f'Quote from {result.source_title} (ID {result.chunk_id}): "{result.quote}"')
    body = indent("\n".join(lines), _INDENT)
    return f"{' '.join(heading.split())}\n{body}"


def _format_field(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of a field: its name as a label, and its text or the entries of its list."""
    label = name.replace("_", " ").capitalize()
    if isinstance(value, str):
        yield f"{label}: {value}" if "\n" not in value else f"{label}:\n{value}"
        return
    yield f"{label}:"
    for item in value:
        if isinstance(item, Step):
            yield f"{item.order}. {item.title}: {item.description}"
            yield from (f"   - {tip}" for tip in item.tips)
        else:
            yield f"- {item}"
