"""How a text is corrected that Carrel does not write: by a note that stands under its hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.knowledge.followed import find_followed_file

if TYPE_CHECKING:
    from shared.firestore.database import Database
    from shared.knowledge.source_repository import StoredSource

HOW_TO_CORRECT: Final = (
    "edit_source changes title, author and tags. To record what is right, call save_note with the"
    ' right text, the id of the passage or source as about, and "corrects": true: it then stands'
    " under each hit."
)


async def explain_text_edit(source: StoredSource, database: Database) -> str:
    """Say where the text of a source is written that is not a note, and how it is corrected.

    Costs the round trips of `find_followed_file`.
    """
    file = await find_followed_file(source.source_id, database)
    place = f"in its file {file}" if file else f"where it came from ({source.origin})"
    return (
        f'"{source.title}" ({source.source_id}) is not a note: its text is {place}, which Carrel'
        f" does not change. Nothing was stored. {HOW_TO_CORRECT}"
    )
