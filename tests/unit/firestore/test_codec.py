"""A codec writes dataclasses as Firestore documents, and reads them."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import pytest

from shared.firestore.codec import Codec, added_field

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Kind(StrEnum):
    BOOK = "book"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    title: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    number: int
    seen: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    volume_id: str
    text: Text
    origin: str
    author: str | None
    kind: Kind = Kind.BOOK
    scopes: frozenset[Kind] = frozenset()
    due: date | None = None
    read_at: datetime | None = None
    page: Page | None = None
    counts: dict[str, int] = field(default_factory=dict)


CODEC = Codec(
    Volume,
    "volume_id",
    stored_as={"origin": "source"},
    readers={
        "kind": Kind,
        "scopes": lambda names: frozenset(map(Kind, names)),
        "due": date.fromisoformat,
        "page": Codec(Page).load,
    },
    inline={"text": Codec(Text)},
)
VOLUME = Volume(
    volume_id="one",
    text=Text(title="Bread", words=("rye", "salt")),
    origin="kindle",
    author=None,
    kind=Kind.NOTE,
    scopes=frozenset({Kind.NOTE, Kind.BOOK}),
    due=date(2026, 3, 1),
    read_at=NOON,
    page=Page(number=7, seen=NOON),
    counts={"read": 2},
)
STORED_VOLUME: dict[str, Any] = {
    "title": "Bread",
    "words": ["rye", "salt"],
    "source": "kindle",
    "author": None,
    "kind": "note",
    "scopes": ["book", "note"],
    "due": "2026-03-01",
    "read_at": NOON,
    "page": {"number": 7, "seen": NOON},
    "counts": {"read": 2},
}


def test_a_record_is_written_without_its_id_and_read_back() -> None:
    document = CODEC.write(VOLUME)
    assert document == STORED_VOLUME
    assert [type(document[name]) for name in ("kind", "due", "scopes")] == [str, str, list]
    assert CODEC.read("one", document | {"colour": "red"}) == VOLUME
    assert sorted(CODEC.stored_names) == sorted(STORED_VOLUME)
    assert CODEC.write(VOLUME, {"origin", "kind"}) == {"source": "kindle", "kind": "note"}
    assert Codec(Page).load({"number": 7}) == Page(number=7)


def test_missing_and_null_fields_take_their_default() -> None:
    bare = {"title": "Bread", "source": "file", "author": "Ann"}
    expected = Volume(volume_id="one", text=Text(title="Bread"), origin="file", author="Ann")
    assert CODEC.read("one", bare) == expected
    assert CODEC.read("one", bare | {"kind": None, "words": None, "counts": None}) == expected


def test_a_field_without_a_default_is_required() -> None:
    assert CODEC.read("one", STORED_VOLUME | {"author": None}).author is None
    with pytest.raises(KeyError, match="author"):
        CODEC.read("one", {name: STORED_VOLUME[name] for name in ("title", "source")})


@pytest.mark.parametrize(
    "options", [{"id_field": "id"}, {"stored_as": {"from": "source"}}, {"readers": {"sort": Kind}}]
)
def test_an_unknown_field_name_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Page has no field"):
        Codec(Page, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    sender: str
    stamp: str | None = added_field()


def test_an_added_field_is_absent_while_it_is_none() -> None:
    codec = Codec(Letter)
    bare, stamped = Letter(sender="Ann"), Letter(sender="Ann", stamp="blue")
    assert codec.write(bare) == {"sender": "Ann"}
    assert codec.write(stamped) == {"sender": "Ann", "stamp": "blue"}
    assert [codec.load(codec.write(letter)) for letter in (bare, stamped)] == [bare, stamped]
    assert codec.list_absent_names(bare) == ["stamp"]
    assert codec.list_absent_names(bare, only=["sender"]) == []
    assert codec.list_absent_names(stamped) == []
