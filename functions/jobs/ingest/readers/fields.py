"""The fields that the formats share: what a person wrote, as Firestore and a reader can take it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

TITLE_LENGTH: Final = 300
"""A title stands before every passage that is embedded: a paragraph there would drown it."""
MAX_TAGS: Final = 200

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDI_CONTROLS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_EMPTINESS: Final = re.compile(r"\s{100,}")
_VALUE_SHOWN: Final = 80


def clean(text: str) -> str:
    r"""The text with `\n` as its only line end and without what UTF-8 or a reader cannot show.

    Control characters go, except `\n` and `\t`. Half a surrogate pair, which JSON and YAML can
    write and UTF-8 cannot, becomes U+FFFD. A hundred blanks in a row become one, or an empty line:
    no chunk is cut inside them, and a megabyte of them fits no document.
    """
    unix = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
    shown = _LONE_SURROGATES.sub("\ufffd", _CONTROLS.sub("", unix))
    return _EMPTINESS.sub(lambda run: "\n\n" if "\n" in run[0] else " ", shown)


def to_one_line(text: str) -> str:
    """The cleaned text with every run of white space as one space.

    What turns the direction of writing goes: left open, it would turn what a terminal shows behind.
    """
    return " ".join(_BIDI_CONTROLS.sub("", clean(text)).split())


def headline(text: str, length: int = TITLE_LENGTH) -> str:
    """The text as a title: on one line, of at most `length` characters."""
    line = to_one_line(text)
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def _block(value: Any) -> Any:
    if value is None:
        return ""
    return clean(value).strip() if isinstance(value, str) else value


def _line(value: Any) -> Any:
    return to_one_line(value) or None if isinstance(value, str) else value


def _people(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _line(", ".join(value))
    return _line(value)


def _tags(value: Any) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(listed, list):
        raise ValueError("Tags are a list, or a text with commas")  # noqa: TRY004  pydantic's way
    names = (to_one_line(_tag(item)).lstrip("#") for item in listed)
    return tuple(dict.fromkeys(name for name in names if name))


def _tag(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else item
    if not isinstance(name, str | int | float | None):
        raise ValueError("A tag is a text, or an object with a name")  # noqa: TRY004  the same
    return "" if name is None else str(name)


def _moment(value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    # The repr of a list may be endless: nine YAML aliases of nine aliases each do it.
    if not isinstance(value, str | int | float):
        raise ValueError("A date is a text such as 2024-05-31")  # noqa: TRY004  pydantic's way
    try:
        moment = datetime.fromisoformat(str(value).strip())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        shown = headline(str(value), _VALUE_SHOWN)
        raise ValueError(f"“{shown}” is not an ISO 8601 date such as 2024-05-31") from error


Block = Annotated[str, BeforeValidator(_block)]
"""Text of any number of lines, cleaned and stripped; null is empty."""

Title = Annotated[str | None, BeforeValidator(_line)]
"""Text on one line, cleaned and stripped; blank is None."""

_Short = Annotated[str, Field(max_length=4_000)]

Line = Annotated[_Short | None, BeforeValidator(_line)]
"""The same where nothing may be cut off: a name, an address."""

People = Annotated[_Short | None, BeforeValidator(_people)]
"""A line, or a list of names that becomes one."""

Tags = Annotated[
    tuple[Annotated[str, Field(max_length=1_500)], ...],
    BeforeValidator(_tags),
    Field(max_length=MAX_TAGS),
]
"""Distinct tags in their order, without `#`: from a list of texts or `{name}`, or commas."""

Moment = Annotated[datetime | None, BeforeValidator(_moment)]
"""An ISO 8601 date or date and time, in UTC; without a time zone it is taken to be UTC."""


DATES: Final = frozenset({"highlighted_at", "date"})
"""Fields that a record can do without where they are wrong."""


class ExternalModel(BaseModel):
    """What somebody else wrote: unknown fields are ignored, numbers may stand for text."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", coerce_numbers_to_str=True, allow_inf_nan=False
    )


class DocumentMetadata(ExternalModel):
    """What is said about a document, all of it optional."""

    title: Title = None
    author: People = None
    tags: Tags = ()
    category: Line = None
    language: Line = Field(default=None, validation_alias=AliasChoices("language", "lang"))
    source_url: Line = Field(default=None, validation_alias=AliasChoices("source_url", "url"))
    highlighted_at: Moment = Field(
        default=None, validation_alias=AliasChoices("highlighted_at", "date")
    )

    @property
    def source_fields(self) -> dict[str, Any]:
        """Those fields of a source that every format can set."""
        return {
            "author": self.author,
            "category": self.category or "documents",
            "language": self.language,
            "source_url": self.source_url,
        }
