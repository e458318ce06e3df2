"""How materials, and the vectors of their passages, are laid out as documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.domain.material import Making, Material, Status
from shared.firestore.writes import known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.cloud.firestore import DocumentSnapshot

    from shared.ai.embedding import Vector


def to_material(snapshot: DocumentSnapshot[Any]) -> Material:
    """Read what is known of materials."""
    fields = known(Material, snapshot.to_dict())
    made = {"status": Status(fields["status"]), "making": Making(**known(Making, fields["making"]))}
    return Material(**(fields | made))


def of_material(material: Material) -> dict[str, Any]:
    """What is known of materials, as fields."""
    return asdict(material) | {"status": material.status.value}


def part_names(material: Material) -> list[str]:
    """The documents of its contents, in order."""
    return [f"{material.document_id}.{material.arrival}.{n}" for n in range(material.parts)]


def to_vector(data: Mapping[str, Any], making: Making) -> Vector | None:
    """The vector of a passage, if one of this model was made."""
    found = data.get("embedding")
    if found is None or data.get("embedding_model") != making.model:
        return None
    vector = tuple(found)
    return vector if len(vector) == making.dimension else None


def of_vector(vector: Vector | None, model: str) -> dict[str, Any]:
    """A vector as fields; none leaves them as they are."""
    if vector is None:
        return {}
    return {"embedding": FirestoreVector(list(vector)), "embedding_model": model}
