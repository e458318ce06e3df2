"""The cards job gives every pending chunk its card, even if other chunks fail.

A card is the summary of a chunk with takeaways, made by a language model or, without a model, of
the sentences of the text (extractive). A short text needs none. If a text fails, the job sends the
model a probe, a text that must work, to find out whether only this text fails.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from functions.jobs.cards.extractive import MODEL as EXTRACTIVE
from functions.jobs.cards.generated import PROBE
from functions.jobs.cards.job import JOB, cards, count_pending
from shared.ai.vertex_generation import VertexGenerator
from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.knowledge.cards import BY_HAND
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.cards import (
    make_card_reply,
    make_generator,
    make_note_text,
    make_source_of_notes,
    read_cards,
)
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.vertex import (
    MODEL,
    FakeVertex,
    Reply,
    make_blocked_reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
)
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, ingest_sources, set_fields
from tests.support.stored_documents import read_chunks, read_chunks_by_text

ODD = "number 3 "
"""Words of the note whose text fails in some tests."""
VALID_CARD = {"summary": "Short.", "takeaways": ["One.", "Two.", "Three."]}
TOO_LONG_CARD = VALID_CARD | {"summary": "s" * 401}
"""A card whose summary exceeds the limit by one character; the model must correct it."""


@pytest.fixture
def server() -> Iterator[FakeVertex]:
    """A fake language model."""
    with FakeVertex() as vertex:
        vertex.answers["GeneratedCard"] = make_card_reply
        yield vertex


@pytest.fixture
async def generator(server: FakeVertex) -> AsyncIterator[VertexGenerator]:
    """A client of the model."""
    generator = make_generator(server)
    yield generator
    await generator.aclose()


@pytest.fixture
def app(apps: Apps, clock: SettableClock, generator: VertexGenerator) -> WatchedApp:
    """The app with the language model."""
    return apps(clock=clock, generator=generator)


async def run_cards(ctx: Context) -> Report:
    return await cards(ctx, make_ample_budget())


def make_expected_card(number: int) -> dict[str, Any]:
    """Return the card of a note that the model makes at noon."""
    card = make_card_reply(f"Notes on Bread\n\n{make_note_text(number)}")
    return card | {"model": MODEL, "generated_at": NOON}


async def test_each_long_chunk_gets_a_card_by_the_model(ctx: Context, server: FakeVertex) -> None:
    """Each card costs a read, a write and a call, and a second run a read.

    A short chunk is not sent to the model.
    """
    await ingest_sources(ctx, make_source_of_notes(10), BAKING)
    read, written = ctx.meter.documents_read, ctx.meter.documents_written
    counts = {"cards": 13, "by language model": 10, "not needed": 3}
    assert await run_cards(ctx) == Report(Counter(counts))
    stored = await read_cards(ctx)
    assert {text: stored[text] for text in map(make_note_text, range(10))} == {
        make_note_text(number): make_expected_card(number) for number in range(10)
    }
    for data in (await read_chunks(ctx)).values():
        assert set(data["pending"]) == {"embed", "index", "extract"}

    assert await run_cards(ctx) == Report()
    assert ctx.meter.documents_read - read == 13 + 1 + 1  # and two empty queries
    assert ctx.meter.documents_written - written == 13
    assert len(server.calls) == 10


async def test_an_overlong_summary_is_sent_back_and_all_tokens_count(
    ctx: Context, server: FakeVertex
) -> None:
    await ingest_sources(ctx, make_source_of_notes(1))
    # The tokens of the prompt, of the answer and of the thoughts, which count as output.
    server.script.append(make_json_reply(TOO_LONG_CARD, (100, 20, 3)))
    server.script.append(make_json_reply(VALID_CARD, (200, 30, 4)))
    await run_cards(ctx)
    assert (await read_cards(ctx))[make_note_text(0)]["model"] == MODEL
    message = server.calls[1].body["contents"][-1]["parts"][0]["text"]
    assert "summary: String should have at most 400 characters" in message
    assert ctx.meter.input_tokens == 100 + 200
    assert ctx.meter.output_tokens == (20 + 3) + (30 + 4)


async def test_the_tokens_of_an_interrupted_run_are_counted(
    ctx: Context, server: FakeVertex
) -> None:
    await ingest_sources(ctx, make_source_of_notes(1))
    server.script.append(make_json_reply(TOO_LONG_CARD, (100, 20, 3)))
    server.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
    with pytest.raises(Unavailable):
        await run_cards(ctx)
    assert (ctx.meter.input_tokens, ctx.meter.output_tokens) == (100, 20 + 3)


@pytest.mark.parametrize(
    "reply_to_probe",
    [make_json_reply(make_card_reply(PROBE), (40, 5, 0)), make_text_reply("", tokens=(40, 5, 0))],
)
async def test_tokens_of_the_probe_are_counted(
    ctx: Context, server: FakeVertex, reply_to_probe: Reply
) -> None:
    await ingest_sources(ctx, make_source_of_notes(1))
    server.replies_by_words["number 0 "] = make_text_reply("", finish="SAFETY", tokens=(60, 2, 0))
    server.replies_by_words[PROBE] = reply_to_probe
    with suppress(PlatformFault):
        await run_cards(ctx)

    probes = sum(call.text.endswith(PROBE) for call in server.calls)
    assert probes > 0
    assert len(server.calls) - probes == 1
    assert ctx.meter.input_tokens == 60 + 40 * probes
    assert ctx.meter.output_tokens == 2 + 5 * probes


async def test_cards_are_extractive_without_a_model(apps: Apps, clock: SettableClock) -> None:
    """A text that needs none loses its card."""
    ctx = make_job_context(apps(clock=clock))
    code = Source("code", "Code", sections=(Section("```\nx = 1\n```"),))
    chunk, *_ = await ingest_sources(ctx, code, BAKING, make_source_of_notes(3))
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": {"summary": "Old."}})
    report = await run_cards(ctx)
    assert report.counts == {"cards": 7, "extractive": 3, "not needed": 4}
    stored = await read_cards(ctx)
    assert set(stored) == set(map(make_note_text, range(3)))
    assert stored[make_note_text(1)]["model"] == EXTRACTIVE
    assert await count_pending(ctx) == 0


async def test_only_a_changed_text_gets_a_new_card(
    ctx: Context, server: FakeVertex, clock: SettableClock
) -> None:
    source = make_source_of_notes(2)
    await ingest_sources(ctx, source)
    await run_cards(ctx)
    server.calls.clear()

    edited = Section(f"{make_note_text(1)} It is eaten warm.")
    sections = (source.sections[0], edited)
    await ingest_sources(ctx, replace(source, sections=sections, title="Bread", tags=("new",)))
    clock.advance(hours=1)
    assert (await run_cards(ctx)).counts == {"cards": 1, "by language model": 1}

    assert [call.text for call in server.calls] == [f"Bread\n\n{edited.text}"]
    times = {text: card["generated_at"] for text, card in (await read_cards(ctx)).items()}
    assert times == {make_note_text(0): NOON, edited.text: clock()}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (make_error_reply(403, "PERMISSION_DENIED"), PlatformFault),
        (make_error_reply(400, "INVALID_ARGUMENT"), InvalidInput),
        (make_text_reply("No."), PlatformFault),
    ],
)
async def test_a_misconfigured_model_defers_no_chunk(
    ctx: Context, server: FakeVertex, reply: Reply, error: type[Exception]
) -> None:
    await ingest_sources(ctx, make_source_of_notes(3))
    server.usual = reply
    with pytest.raises(error):
        await run_cards(ctx)
    assert await read_cards(ctx) == {}
    assert all(data["tries"] == {} for data in (await read_chunks(ctx)).values())


@pytest.mark.parametrize("reply", [make_blocked_reply(), make_error_reply(400, "INVALID_ARGUMENT")])
async def test_a_refused_text_gets_an_extractive_card(
    ctx: Context, server: FakeVertex, reply: Reply
) -> None:
    await ingest_sources(ctx, make_source_of_notes(10))
    server.replies_by_words[ODD] = reply
    report = await run_cards(ctx)
    assert report == Report(Counter({"cards": 10, "by language model": 9, "extractive": 1}))
    assert (await read_cards(ctx))[make_note_text(3)]["model"] == EXTRACTIVE


async def test_repeated_invalid_answers_end_in_an_extractive_card(
    ctx: Context, server: FakeVertex, clock: SettableClock
) -> None:
    await ingest_sources(ctx, make_source_of_notes(10))
    server.replies_by_words[ODD] = make_json_reply(TOO_LONG_CARD)
    for _ in range(4):
        [failure] = (await run_cards(ctx)).failures
        clock.advance(hours=1)
    assert "answered again" in failure.reason
    odd = (await read_chunks_by_text(ctx))[make_note_text(3)]
    assert odd["tries"] == {"card": 4}
    assert "card" in odd["pending"]

    assert await run_cards(ctx) == Report(Counter({"cards": 1, "extractive": 1}))
    assert len(await read_cards(ctx)) == 10


async def test_renewal_queues_the_cards_of_another_model(
    apps: Apps, ctx: Context, clock: SettableClock
) -> None:
    """All cards are extractive first; then one of a long note is written by hand.

    A card that would not be made now, such as that of a short text, is queued as well.
    """
    without_model = make_job_context(apps(clock=clock))
    _, _, chunk, short, *_ = await ingest_sources(without_model, make_source_of_notes(3), BAKING)
    await run_cards(without_model)
    by_hand = {"model": BY_HAND, "summary": "Written by hand."}
    await set_fields(without_model, f"chunks/{chunk.chunk_id}", {"knowledge_card": by_hand})
    assert JOB.renew is not None
    assert await JOB.renew(without_model) == 0
    await set_fields(
        without_model, f"chunks/{short.chunk_id}", {"knowledge_card": {"model": "extractive"}}
    )

    assert await JOB.renew(ctx) == 3
    counts = {"cards": 3, "by language model": 2, "not needed": 1}
    assert (await run_cards(ctx)).counts == counts

    made_by = {text: card["model"] for text, card in (await read_cards(ctx)).items()}
    assert Counter(made_by.values()) == Counter({MODEL: 2, BY_HAND: 1})
    assert made_by[chunk.content] == BY_HAND
    assert await JOB.renew(ctx) == 0
    assert await JOB.renew(without_model) == 2
