"""Field types that the formats share, and functions that clean strings to be stored and shown."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from functions.jobs.ingest.readers.written_dates import parse_datetime

TITLE_LENGTH: Final = 300
"""Longer titles are cut: a title is embedded with every passage and must not dominate it."""
MAX_TAGS: Final = 200
"""The maximum number of tags of a source or a passage."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDI_CONTROLS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_LONG_BLANK: Final = re.compile(r"\s{100,}")
_MAX_VALUE: Final = 80
"""The maximum length of a date in words, and of a value that a message quotes, in characters."""
_YEAR_OR_MONTH: Final = re.compile(r"\d{4}(?:-\d\d)?", re.ASCII)
_YEAR_FIRST: Final = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)", re.ASCII)
"""The beginning of a date such as 2024/05/31 or 2024-5-31."""
_DATE_LENGTH: Final = len("2024-05-31")
_SECONDS: Final = re.compile(r"\d{9,11}", re.ASCII)
"""A time in seconds since 1970, in the years 1973 to 5138."""
_DAY_FIRST: Final = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})", re.ASCII)
"""A date such as 31.05.2024. With dots, the day comes first everywhere; with slashes, it does not:
06/01/2024 is a day in June or in January."""


def clean(text: str) -> str:
    r"""Normalize line ends to `\n`, and remove what UTF-8 cannot encode or a screen cannot show.

    Control characters are removed, except `\n` and `\t`. Half a surrogate pair, which JSON and YAML
    can contain but UTF-8 cannot, becomes U+FFFD. A run of a hundred or more white-space characters
    becomes a space or an empty line, because passages are never divided inside such a run, and a
    megabyte of white space would not fit into a Firestore document.
    """
    unix = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
    visible = _LONE_SURROGATES.sub("\ufffd", _CONTROLS.sub("", unix))
    return _LONG_BLANK.sub(lambda run: "\n\n" if "\n" in run[0] else " ", visible)


def to_one_line(text: str) -> str:
    """Clean a text, and replace every run of white space with one space.

    Characters that set the writing direction are removed: an unclosed one would affect everything
    that a terminal shows after the text.
    """
    return " ".join(_BIDI_CONTROLS.sub("", clean(text)).split())


def to_headline(text: str, length: int = TITLE_LENGTH) -> str:
    """Cut a text to a title: one line of at most `length` characters."""
    line = to_one_line(text)
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def fold_text(text: str) -> str:
    """Normalize a text to NFC, casefold and strip it, for comparison."""
    return unicodedata.normalize("NFC", text).casefold().strip()


def to_alphanumerics(text: str) -> str:
    """Reduce a text to its letters and digits in lower case, for a loose comparison."""
    return "".join(filter(str.isalnum, text.casefold()))


def _parse_block(value: Any) -> Any:
    if value is None:
        return ""
    return clean(value).strip() if isinstance(value, str) else value


def _parse_line(value: Any) -> Any:
    return to_one_line(value) or None if isinstance(value, str) else value


def _parse_people(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _parse_line(", ".join(value))
    return _parse_line(value)


def _parse_tags(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(items, list):
        raise ValueError("Tags are a list, or a text with commas")  # noqa: TRY004 - pydantic's way
    names = (to_one_line(_get_tag_name(item)).lstrip("#") for item in items)
    return tuple(dict.fromkeys(name for name in names if name))


def _get_tag_name(item: Any) -> str:
    match item:
        case {"name": name}:
            pass
        case dict() if len(item) == 1:  # how YAML reads `- book: knots`
            name = ": ".join(map(str, *item.items()))
        case _:
            name = item
    if not isinstance(name, str | int | float | None):
        raise ValueError("A tag is a text, or an object with a name")  # noqa: TRY004 - pydantic's way
    return "" if name is None else str(name)


def parse_moment(value: Any) -> datetime | None:
    """Parse a date as described at `Moment`. An empty one is None.

    Raises:
        ValueError: It is not a date.
    """
    if value is None or value == "":
        return None
    # A list must not reach the message below. With YAML aliases, a small file can contain a list
    # whose text is gigabytes long ("billion laughs").
    if not isinstance(value, str | int | float):
        raise ValueError("A date is a text such as 2024-05-31")  # noqa: TRY004 - pydantic's way
    try:
        text = str(value).strip()
        if _YEAR_OR_MONTH.fullmatch(text):
            text = f"{text}-01-01"[:_DATE_LENGTH]  # 2024 or 2024-05 becomes its first day
        if match := _DAY_FIRST.fullmatch(text):
            text = f"{match[3]}-{match[2]:0>2}-{match[1]:0>2}"
        if match := _YEAR_FIRST.match(text):
            text = f"{match[1]}-{match[3]:0>2}-{match[4]:0>2}{text[match.end() :]}"
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            written = parse_datetime(text) if len(text) <= _MAX_VALUE else None
            if written is None:
                raise
            return written
        return moment.astimezone(UTC) if moment.tzinfo else moment
    except (ValueError, OverflowError) as error:
        excerpt = to_headline(str(value), _MAX_VALUE)
        raise ValueError(f"“{excerpt}” is not an ISO 8601 date such as 2024-05-31") from error


def parse_timestamp(value: Any) -> datetime | None:
    """Parse a date as described at `Timestamp`. An empty one is None.

    Raises:
        ValueError: It is not a date.
    """
    if isinstance(value, str) and _SECONDS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return parse_moment(value)
    try:
        return datetime.fromtimestamp(value, UTC) if value else None
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("A time is a number of seconds since 1970") from error


Block = Annotated[str, BeforeValidator(_parse_block)]
"""Text of any number of lines, cleaned and stripped; null is empty."""

Title = Annotated[str | None, BeforeValidator(_parse_line)]
"""Text on one line, cleaned and stripped; blank is None."""

_Short = Annotated[str, Field(max_length=4_000)]

Line = Annotated[_Short | None, BeforeValidator(_parse_line)]
"""Text on one line, such as a name or an address. A longer text is rejected instead of cut."""

People = Annotated[_Short | None, BeforeValidator(_parse_people)]
"""A line, or a list of names that becomes a line."""

Tags = Annotated[
    tuple[Annotated[str, Field(max_length=1_500)], ...],
    BeforeValidator(_parse_tags),
    Field(max_length=MAX_TAGS),
]
"""Distinct tags in order, without `#`, from a list of texts or `{name}` objects, or from a text
with commas."""

Moment = Annotated[datetime | None, BeforeValidator(parse_moment)]
"""A date in ISO 8601 or with the name of a month, with or without a time. It is in UTC, or has no
zone if the text names none: `chunk_source` reads it in the owner's."""


Timestamp = Annotated[datetime | None, BeforeValidator(parse_timestamp)]
"""A `Moment`, or a number of seconds since 1970; 0 is None."""

DATES: Final = frozenset({"highlighted_at", "date"})
"""The names of date fields. The readers drop an invalid date and keep its record."""


class ExternalModel(BaseModel):
    """A model of external data: unknown fields are ignored, and numbers are accepted as text."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", coerce_numbers_to_str=True, allow_inf_nan=False
    )


class DocumentMetadata(ExternalModel):
    """The metadata of a document, all of it optional.

    Attributes:
        date: When the document was written or published.
    """

    title: Title = None
    author: People = Field(default=None, validation_alias=AliasChoices("author", "authors"))
    tags: Tags = ()
    category: Line = None
    language: Line = Field(default=None, validation_alias=AliasChoices("language", "lang"))
    source_url: Line = Field(default=None, validation_alias=AliasChoices("source_url", "url"))
    highlighted_at: Moment = None
    date: Moment = None

    @property
    def source_fields(self) -> dict[str, Any]:
        """The fields of a source that are the same in all formats, except title, tags and date."""
        return {
            "author": self.author,
            "category": self.category or "documents",
            "language": self.language,
            "source_url": self.source_url,
        }


def _split_tags(value: Any) -> Any:
    """Split a text into tags at commas and before `#`, or at spaces if it has neither."""
    if not isinstance(value, str):
        return value
    text = value.replace(" #", ",#")
    return text.split("," if "," in text else None)


class NoteMetadata(DocumentMetadata):
    """The metadata of a note, from its front matter or its properties."""

    tags: Annotated[Tags, BeforeValidator(_split_tags)] = Field(
        default=(), validation_alias=AliasChoices("tags", "tag")
    )
    created: Moment = None
    updated: Moment = Field(default=None, validation_alias=AliasChoices("updated", "modified"))
