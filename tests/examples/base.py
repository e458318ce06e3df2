"""A small knowledge base with private data of Anna, on which the examples of all tools are called.

The ids are the same whenever it is stored.
"""

import itertools
import secrets
from typing import Final

import pytest
from google.cloud.firestore_v1.vector import Vector

from shared.core.caller import Caller, Role
from shared.core.ids import IdKind, make_id
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support import tool_calls
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    store_extractions,
)
from tests.support.jobs import make_job_context
from tests.support.knowledge import (
    BAKING,
    SAILING,
    chunk_source,
    index_all,
    set_fields,
    store_sources,
)
from tests.support.searches import update_and_index_chunk
from tests.support.tool_calls import call_result

ANNA: Final = Caller.of(tool_calls.ANNA, role=Role.EDITOR)
"""The user whose data is private."""
OWNER: Final = Caller.of("olga", role=Role.OWNER)
STRANGER: Final = Caller.of("ben", role=Role.EDITOR)
"""A user who must not see Anna's data."""
VOTER: Final = Caller.of("carl.gauss@example.com")
"""A user who voted on `TRACE`."""
PRIVATE_WORD: Final = "quagga"
"""A word that only Anna's private data contain."""
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
"""The passages of the source `baking`. The first is in the cluster `dough`."""
NOTE, *FORGOTTEN_NOTES = (make_id(IdKind.NOTE, f"{number:016x}") for number in (7, 9, 11, 13))
"""Notes that Anna saved. She forgot all but the first."""
NOTE_TEXT: Final = "Rye bread keeps for a week if it is wrapped in linen."
LINK: Final = "https://reefs.example/atlas"
"""The address of a page that Anna saved, and that nobody has fetched."""
TRACE, OTHER_TRACE = f"{2:016x}", f"{4:016x}"
"""Traces that Anna contributed."""
MATERIALS: Final = "The last quagga died in a zoo.\n\nRye bread needs a sour dough."
DOCUMENT: Final = content_id(MATERIALS)
"""The text that Anna brought to her workspace `default`."""


async def store_base(app: App) -> None:
    """Store the base. Anna has four tasks, of which the last is deleted."""
    numbers = itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        await _store_knowledge(app)
        await _store_data_of_anna(app)
    await index_all(make_job_context(app))


async def _store_knowledge(app: App) -> None:
    ctx = make_job_context(app)
    chunks = await store_sources(ctx, BAKING, SAILING)
    for number, (cluster_id, size) in enumerate({"dough": 3, "sails": 2, "ovens": 1}.items()):
        fields = {
            "name": cluster_id.title(),
            "description": f"On {cluster_id}.",
            "keywords": [cluster_id],
            "size": size,
            "centroid": Vector([1.0, float(number)]),
        }
        await set_fields(ctx, f"clusters/{cluster_id}", fields)
    for chunk, cluster_id in ((chunks[0], "dough"), (chunks[1], "dough"), (chunks[3], "sails")):
        await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=[cluster_id])
    makers = (make_decision, make_pattern, make_warning, make_methodology)
    contents = [make(name) for make in makers for name in ("Flour", "Heat", "Time")]
    await store_extractions(
        ctx, *(make_extraction(chunks[0], item, "bread", "flour", "oven") for item in contents)
    )


async def _store_data_of_anna(app: App) -> None:
    for trace_id, thing in ((TRACE, "hinge"), (OTHER_TRACE, "drawer")):
        trace = {"title": f"A {thing} jams", "context_text": f"The {thing} is of wood."}
        solution = {"solution_text": f"Oil the {thing}.", "tags": [thing, "wood"]}
        contributed = await call_result(app, "contribute_trace", ANNA, **trace, **solution)
        assert contributed["trace_id"] == trace_id
    arguments = {"trace_id": TRACE, "vote_type": "down", "feedback_tag": "wrong"}
    await call_result(app, "vote_trace", VOTER, **arguments, feedback_text="It jams again.")
    texts = (
        NOTE_TEXT,
        f"A {PRIVATE_WORD} had stripes.",
        f"The {PRIVATE_WORD} is no zebra.",
        f"No {PRIVATE_WORD}.",
    )
    for note, text in zip((NOTE, *FORGOTTEN_NOTES), texts, strict=True):
        saved = await call_result(app, "save_note", ANNA, text=text, tags=[text.split()[0]])
        assert saved["source_id"] == note
    for note in FORGOTTEN_NOTES:
        await call_result(app, "forget", ANNA, source_id=note, reason=f"No {PRIVATE_WORD} lives.")
    await call_result(app, "save_link", ANNA, url=LINK)
    for number in (1, 2, 3, 4):
        await call_result(app, "add_task", ANNA, title=f"Feed {PRIVATE_WORD} {number}")
    await call_result(app, "delete_task", ANNA, task_id="4")
    await call_result(app, "extract_key_info", ANNA, query="zoo", materials=MATERIALS)
