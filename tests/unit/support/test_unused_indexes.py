"""The check at the end of a run names the indexes that no query used."""

from pathlib import Path

from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions
from infra.local.local_database import INDEX_FILES
from tests.support.unused_indexes import find_unused_indexes


async def test_an_index_is_unused_until_a_query_needs_it(tmp_path: Path) -> None:
    databases = Databases(
        tmp_path, lambda name: Definitions.read(INDEX_FILES[name], 0), durable=False
    )
    client = databases.make_client("p")
    before = find_unused_indexes(tmp_path)
    facet = FieldFilter("facets", "array_contains", "tag:a")
    await client.collection("sources").where(filter=facet).order_by("title_key").get()
    vector = Vector([1.0])
    await (
        client.collection("chunks")
        .where(filter=facet)
        .find_nearest("embedding", vector, distance_measure=DistanceMeasure.COSINE, limit=1)
        .get()
    )
    databases.close()

    used = sorted(set(before) - set(find_unused_indexes(tmp_path)))
    assert ["embedding" in line for line in used] == [True, False]
    assert '"title_key"' in used[1]
