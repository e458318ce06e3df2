"""`meta/readwise`: how far the base follows a Readwise library.

Its fields are those of `Progress`, and the `layout` of the chunks that were written: where that has
changed, all is to be read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.codec import Codec
from shared.firestore.writes import put
from shared.knowledge.chunk_repository import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.firestore.database import Database

MOST_TRIES: Final = 5
"""How often a book is read that cannot be read, before it is parked."""
MOST_MISSED: Final = 500
"""Books that are remembered as missed: a document holds a megabyte."""
_PLACE: Final = ("meta", "readwise")


@dataclass(frozen=True, slots=True)
class Missed:
    """A book that could not be read.

    Attributes:
        name: What people call it.
        reason: Why.
        tries: How many runs tried.
    """

    name: str
    reason: str
    tries: int = 1

    @property
    def parked(self) -> bool:
        """Whether it is left alone until it changes."""
        return self.tries >= MOST_TRIES


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A run that has not been completed.

    Attributes:
        began_at: When it began, by Readwise's clock.
        done: The id of the last book that it dealt with.
    """

    began_at: datetime
    done: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the base follows the library.

    Attributes:
        updated_after: What changed before that is in the base, but for `missed`; None: nothing is.
        missed: The books that could not be read, by their ids.
        under_way: The run to go on with.
    """

    updated_after: datetime | None = None
    missed: Mapping[str, Missed] = field(default_factory=dict)
    under_way: UnderWay | None = None

    @property
    def waiting(self) -> dict[str, Missed]:
        """The missed books that are to be tried again."""
        return {name: each for name, each in self.missed.items() if not each.parked}


def _missed(data: Mapping[str, Any]) -> dict[str, Missed]:
    return {book_id: Codec(Missed).load(book) for book_id, book in data.items()}


_CODEC: Final = Codec(Progress, read={"missed": _missed, "under_way": Codec(UnderWay).load})


class ReadwiseSync:
    """Keeps how far the base follows a library."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def progress(self) -> Progress:
        """How far it does: not at all, where chunks are laid out differently since."""
        snapshot = await self._database.get(self._database.document(*_PLACE))
        data = snapshot.to_dict() or {}
        return _CODEC.load(data) if data.get("layout") == LAYOUT else Progress()

    async def parked(self) -> list[Missed]:
        """The books that are left alone."""
        return [each for each in (await self.progress()).missed.values() if each.parked]

    async def retry(self) -> int:
        """Let those be tried again, as if for the first time; return how many there are."""
        return await self._database.until_it_holds(self._retry)

    async def keep(self, progress: Progress) -> None:
        """Remember it."""
        reference = self._database.document(*_PLACE)
        missed = dict(islice(progress.missed.items(), MOST_MISSED))
        data = _CODEC.write(replace(progress, missed=missed)) | {"layout": LAYOUT}
        await self._database.commit([lambda batch: batch.set(reference, data)])

    async def _retry(self) -> int:
        seen = await self._database.get(self._database.document(*_PLACE))
        missed: dict[str, dict[str, Any]] = (seen.to_dict() or {}).get("missed", {})
        parked = [each for each in missed.values() if each["tries"] >= MOST_TRIES]
        for each in parked:
            each["tries"] = 0
        await self._database.commit([put(seen, {"missed": missed})] if parked else [])
        return len(parked)
