"""What was extracted of a chunk goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from functions.jobs.index.job import index
from shared.core.dates import utc_now
from shared.extractions.extracted_chunks import extracted, topic_writes
from shared.extractions.model import Decision, Extraction, Pitfall
from shared.knowledge.ingestion import Ingestion
from tests.support.knowledge import BAKING, SAILING, in_chunks, put_in, write
from tests.support.stored_documents import ample, documents

if TYPE_CHECKING:
    from shared.extractions.model import Content
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

REEF = Decision(question="When to reef?", options=("early", "late"), considerations=("wind",))
GALE = Pitfall(title="Gales", description="A short chain drags.")


def of(chunk: Chunk, content: Content, *topics: str, duplicate_of: str | None = None) -> Extraction:
    return Extraction(
        extraction_id=f"{content.type}-{chunk.chunk_id}",
        content=content,
        topics=topics,
        quote=chunk.content,
        source_id=chunk.source_id,
        chunk_id=chunk.chunk_id,
        confidence=0.8,
        model="m",
        extracted_at=utc_now(),
        duplicate_of=duplicate_of,
    )


async def hang(deps: Deps, chunk: Chunk, *extractions: Extraction) -> None:
    """Have these extractions hang on a chunk."""
    known = extracted(extractions)
    await write(deps, f"chunks/{chunk.chunk_id}", {"extracted": known})
    for each in extractions:
        await write(deps, f"extractions/{each.extraction_id}", {"quote": each.quote})
    await deps.database.commit(topic_writes(deps.database, {}, known))


async def counts(deps: Deps) -> dict[str, dict[str, int]]:
    found = await documents(deps, "topics")
    return {data["name"]: {**data["counts"], "all": data["total"]} for data in found.values()}


async def test_extractions_and_their_counts_go_with_their_chunk(deps: Deps) -> None:
    first, second = await put_in(deps, SAILING)
    await hang(deps, first, of(first, REEF, "sailing", "weather"), of(first, GALE, "weather"))
    await hang(deps, second, of(second, GALE, "weather"))
    assert await counts(deps) == {
        "sailing": {"decision": 1, "all": 1},
        "weather": {"decision": 1, "warning": 2, "all": 3},
    }
    fewer = replace(SAILING, sections=SAILING.sections[1:])
    await Ingestion(deps.database).save([in_chunks(fewer)], utc_now())
    await index(deps, ample())
    assert set(await documents(deps, "extractions")) == {f"warning-{second.chunk_id}"}
    assert await counts(deps) == {
        "sailing": {"decision": 0, "all": 0},
        "weather": {"decision": 0, "warning": 1, "all": 1},
    }


async def test_what_no_list_shows_is_counted_nowhere_and_goes_too(deps: Deps) -> None:
    first, *_ = await put_in(deps, BAKING)
    await hang(deps, first, of(first, GALE, "weather", duplicate_of="another"))
    assert await counts(deps) == {}
    await Ingestion(deps.database).save([in_chunks(replace(BAKING, sections=()))], utc_now())
    await index(deps, ample())
    assert await documents(deps, "extractions") == {}
    assert await counts(deps) == {}
