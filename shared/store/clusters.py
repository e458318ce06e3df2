"""`clusters/{cluster_id}`: topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.domain.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.store.database import Database


class Clusters:
    """Reads clusters."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def get_all(self, cluster_ids: Sequence[str]) -> list[Cluster]:
        """The clusters that exist among those named, in the order named, in one round trip."""
        references = [self._database.document("clusters", name) for name in cluster_ids]
        snapshots = await self._database.get_all(references, ["name", "description"])
        found = {
            snapshot.id: Cluster(snapshot.id, data["name"], data.get("description"))
            for snapshot in snapshots
            if (data := snapshot.to_dict())
        }
        return [found[name] for name in cluster_ids if name in found]
