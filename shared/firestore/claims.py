"""Claims in Firestore: `claims/{hash}`, by which one text is stored once.

The id is a hash of the text (`shared.text.folding`), and the field `holder` is the id of the note
or trace that has the text. A claim is created in the commit that stores its holder. So of calls
that store one text at the same moment, one commits; the others get a conflict, look again, and find
the holder. The holder's document has the claim's id in the field `claim`. The commit that edits the
holder, or takes it out of the knowledge base, releases the claim.

A document may have a text without its claim, if a user wanted a second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.documents import Document, Reference
from shared.firestore.writes import Create, Delete, Write, put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.firestore.database import Database

COLLECTION: Final = "claims"
FIELD: Final = "claim"
"""The field of a holder's document that has the id of its claim, or None."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it was read, held or not."""

    snapshot: Document

    @property
    def claim_id(self) -> str:
        """The hash of the text."""
        return self.snapshot.id

    @property
    def holder(self) -> str | None:
        """The id of the document that has the text, or None."""
        holder: str | None = self.snapshot.fields.get("holder")
        return holder


async def load_claim(database: Database, claim_id: str) -> Claim:
    """Load the claim of a text. Costs one round trip."""
    return Claim(await database.get(Reference(COLLECTION, claim_id)))


def build_claim_writes(claim: Claim | None, holder: str) -> list[Write]:
    """Build the write, if any, that gives a claim to a document.

    The commit fails if the claim has changed since it was read.
    """
    return [put_if_unchanged(claim.snapshot, {"holder": holder})] if claim else []


def build_reclaim_writes(fields: Mapping[str, Any], holder: str) -> list[Write]:
    """Build the write, if any, that gives a restored document with these fields its claim back.

    The commit fails if another document has taken the claim.
    """
    claim_id = fields.get(FIELD)
    if claim_id is None:
        return []
    reference = Reference(COLLECTION, claim_id)
    return [Create(reference, {"holder": holder})]


def build_release_writes(fields: Mapping[str, Any]) -> list[Write]:
    """Build the write, if any, that releases the claim of a document with these fields.

    The same commit must fail if the document has changed since it was read.
    """
    claim_id = fields.get(FIELD)
    if claim_id is None:
        return []
    reference = Reference(COLLECTION, claim_id)
    return [Delete(reference)]


def change_claim(document: Document, claim: Claim | None) -> tuple[str | None, list[Write]]:
    """Exchange the claim of a document for another, or for none.

    Returns:
        The value of the document's field `claim`, and the writes for the commit that changes it.
    """
    fields = document.fields
    if claim and claim.claim_id == fields.get(FIELD):
        return claim.claim_id, []
    release = build_release_writes(fields)
    return claim.claim_id if claim else None, [*release, *build_claim_writes(claim, document.id)]
