"""The cards job gives every pending chunk its card, even if other chunks fail.

A card is the summary of a chunk with takeaways, made by a language model or, for short texts and
without a model, of the sentences of the text (extractive). If a text fails, the job sends the
model a probe, a text that must work, to find out whether only this text fails.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from functions.jobs.cards.generated import PROBE
from functions.jobs.cards.job import JOB, cards, count_pending
from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.core.settings import Settings
from shared.knowledge.cards import BY_HAND
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.runtime.job import Report, run_job
from tests.support.cards import (
    make_card_reply,
    make_cards_context,
    make_generator,
    make_note_text,
    make_source_of_notes,
    read_cards,
)
from tests.support.clock import NOON
from tests.support.fakes.vertex import (
    MODEL,
    FakeVertex,
    Reply,
    make_blocked_reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
)
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.knowledge import BAKING, ingest_sources, set_fields
from tests.support.stored_documents import read_chunks, read_chunks_by_text

MakeContext = Callable[..., Context]

MAX_WAIT: Final = 60.0
"""The time limit of a wait, in seconds, which only a failing test reaches."""


ODD = "number 3 "
"""Words of the note whose text fails in some tests."""
VALID_CARD = {"summary": "Short.", "takeaways": ["One.", "Two.", "Three."]}
TOO_LONG_CARD = VALID_CARD | {"summary": "s" * 401}
"""A card whose summary exceeds the limit by one character; the model must correct it."""
LATER = NOON + timedelta(hours=1)


@pytest.fixture
def server() -> Iterator[FakeVertex]:
    """A fake language model."""
    with FakeVertex() as vertex:
        vertex.answers["GeneratedCard"] = make_card_reply
        yield vertex


@pytest.fixture
async def make_context(settings: Settings, server: FakeVertex) -> AsyncIterator[MakeContext]:
    """A function that makes the context of a run with a language model, by default at noon."""
    generator = make_generator(server)
    yield lambda moment=NOON: make_cards_context(settings, generator, moment)
    await generator.aclose()


def make_expected_card(number: int) -> dict[str, Any]:
    """Return the card of a note that the model makes at noon."""
    card = make_card_reply(f"Notes on Bread\n\n{make_note_text(number)}")
    return card | {"model": MODEL, "generated_at": NOON}


async def run_hourly(make_context: Callable[[datetime], Context], count: int) -> Report:
    """Run the job `count` times, from noon, an hour apart; return the last report."""
    report = Report()
    for number in range(count):
        moment = NOON + timedelta(hours=number)
        report = await cards(make_context(moment), make_ample_budget())
    return report


async def test_each_chunk_gets_a_card_by_the_model(make_context: MakeContext) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(10))
    report = await cards(ctx, make_ample_budget())
    assert report == Report(Counter({"cards": 10, "by language model": 10}))
    expected = {make_note_text(number): make_expected_card(number) for number in range(10)}
    assert await read_cards(ctx) == expected
    for data in (await read_chunks(ctx)).values():
        assert set(data["pending"]) == {"embed", "index", "extract"}


async def test_the_tokens_of_every_request_are_counted(
    make_context: MakeContext, server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    # The tokens of the prompt, of the answer and of the thoughts, which count as output.
    server.script.append(make_json_reply(TOO_LONG_CARD, (100, 20, 3)))
    server.script.append(make_json_reply(VALID_CARD, (200, 30, 4)))
    await cards(ctx, make_ample_budget())
    assert ctx.meter.input_tokens == 100 + 200
    assert ctx.meter.output_tokens == (20 + 3) + (30 + 4)


async def test_the_tokens_of_an_interrupted_run_are_counted(
    make_context: MakeContext, server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    server.script.append(make_json_reply(TOO_LONG_CARD, (100, 20, 3)))
    server.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
    with pytest.raises(Unavailable):
        await cards(ctx, make_ample_budget())
    assert ctx.meter.input_tokens == 100
    assert ctx.meter.output_tokens == 20 + 3


@pytest.mark.parametrize(
    "reply_to_probe",
    [make_json_reply(make_card_reply(PROBE), (40, 5, 0)), make_text_reply("", tokens=(40, 5, 0))],
)
async def test_tokens_of_the_probe_are_counted(
    make_context: MakeContext, server: FakeVertex, reply_to_probe: Reply
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    server.replies_by_words["number 0 "] = make_text_reply("", finish="SAFETY", tokens=(60, 2, 0))
    server.replies_by_words[PROBE] = reply_to_probe

    with suppress(PlatformFault):
        await cards(ctx, make_ample_budget())

    probes = sum(call.text.endswith(PROBE) for call in server.calls)
    assert probes > 0
    assert len(server.calls) - probes == 1
    assert ctx.meter.input_tokens == 60 + 40 * probes
    assert ctx.meter.output_tokens == 2 + 5 * probes


async def test_a_chunk_costs_a_read_and_a_write(make_context: MakeContext) -> None:
    await ingest_sources(make_context(), make_source_of_notes(20))
    ctx = make_context()
    await cards(ctx, make_ample_budget())
    assert ctx.meter.documents_read == 20 + 1  # and an empty query at the end
    assert ctx.meter.documents_written == 20


async def test_a_run_with_nothing_to_do_costs_one_read(
    make_context: MakeContext, server: FakeVertex
) -> None:
    ctx = make_context()
    assert await cards(ctx, make_ample_budget()) == Report()
    assert ctx.meter.documents_read == 1
    assert ctx.meter.documents_written == 0
    assert server.calls == []


async def test_cards_are_extractive_without_a_model(settings: Settings) -> None:
    ctx = make_cards_context(settings)
    await ingest_sources(ctx, BAKING, make_source_of_notes(3))
    report = await cards(ctx, make_ample_budget())
    assert report == Report(Counter({"cards": 6, "extractive": 6}))
    text = make_note_text(1)
    card = {"summary": text, "takeaways": [], "model": "extractive", "generated_at": NOON}
    assert (await read_cards(ctx))[text] == card


async def test_a_text_without_a_sentence_loses_its_card(settings: Settings) -> None:
    ctx = make_cards_context(settings)
    code = "```\nx = 1\n```"
    [chunk] = await ingest_sources(ctx, Source("code", "Code", sections=(Section(code),)))
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": {"summary": "Old."}})
    await cards(ctx, make_ample_budget())
    assert await read_cards(ctx) == {}
    assert await count_pending(ctx) == 0


async def test_a_short_text_is_not_sent_to_the_model(
    make_context: MakeContext, server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, BAKING)
    assert (await cards(ctx, make_ample_budget())).counts == {"cards": 3, "extractive": 3}
    assert server.calls == []


async def test_only_a_changed_text_gets_a_new_card(
    make_context: MakeContext, server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(2))
    await cards(make_context(), make_ample_budget())
    server.calls.clear()

    source = make_source_of_notes(2)
    edited = Section(f"{make_note_text(1)} It is eaten warm.")
    edited_source = replace(
        source, sections=(source.sections[0], edited), title="Bread", tags=("new",)
    )
    await ingest_sources(make_context(), edited_source)
    ctx = make_context(LATER)
    assert (await cards(ctx, make_ample_budget())).counts == {"cards": 1, "by language model": 1}

    assert [call.text for call in server.calls] == [f"Bread\n\n{edited.text}"]
    times = {text: card["generated_at"] for text, card in (await read_cards(ctx)).items()}
    assert times == {make_note_text(0): NOON, edited.text: LATER}


async def test_a_chunk_edited_during_the_run_gets_a_new_card(
    make_context: MakeContext, server: FakeVertex
) -> None:
    """The chunk is edited while the model makes a card of its old text."""
    ctx = make_context()
    [chunk] = await ingest_sources(ctx, make_source_of_notes(1))
    is_requested, is_edited = threading.Event(), threading.Event()

    def answer_after_edit(text: str) -> object:
        is_requested.set()
        assert is_edited.wait(MAX_WAIT)
        return VALID_CARD | {"summary": "New." if "says now" in text else "Old."}

    server.answers["GeneratedCard"] = answer_after_edit
    run = asyncio.create_task(cards(ctx, make_ample_budget()))
    assert await asyncio.to_thread(is_requested.wait, MAX_WAIT)
    new_text = f"This is what it says now. {make_note_text(0)}"
    change = {"content": new_text, "content_hash": "new"}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", change)
    is_edited.set()

    assert (await run).counts == {"cards": 1, "by language model": 2}
    assert (await read_cards(ctx))[new_text]["summary"] == "New."


async def test_an_outage_stops_the_run_and_defers_no_chunk(
    make_context: MakeContext, server: FakeVertex
) -> None:
    """Before the outages, the model answers 0, 1, 2, 3 and 4 requests."""
    await ingest_sources(make_context(), make_source_of_notes(12))

    for answer_count in range(5):
        server.script.extend([Reply()] * answer_count)
        server.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
        with pytest.raises(Unavailable):
            await cards(make_context(), make_ample_budget())
    chunks = (await read_chunks(make_context())).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)

    server.usual = Reply()
    await cards(make_context(), make_ample_budget())
    assert len(await read_cards(make_context())) == 12


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (make_error_reply(403, "PERMISSION_DENIED"), PlatformFault),
        (make_error_reply(400, "INVALID_ARGUMENT"), InvalidInput),
        (make_text_reply("No."), PlatformFault),
    ],
)
async def test_a_misconfigured_model_defers_no_chunk(
    make_context: MakeContext, server: FakeVertex, reply: Reply, error: type[Exception]
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(3))
    server.usual = reply
    with pytest.raises(error):
        await cards(make_context(), make_ample_budget())
    assert await read_cards(make_context()) == {}
    assert all(data["tries"] == {} for data in (await read_chunks(make_context())).values())


@pytest.mark.parametrize("reply", [make_blocked_reply(), make_error_reply(400, "INVALID_ARGUMENT")])
async def test_a_refused_text_gets_an_extractive_card(
    make_context: MakeContext, server: FakeVertex, reply: Reply
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(10))
    server.replies_by_words[ODD] = reply
    report = await cards(make_context(), make_ample_budget())
    assert report.counts == {"cards": 10, "by language model": 9, "extractive": 1}
    assert report.failures == []
    assert (await read_cards(make_context()))[make_note_text(3)]["model"] == "extractive"


async def test_an_overlong_summary_is_sent_back_to_the_model(
    make_context: MakeContext, server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(1))
    server.script.append(make_json_reply(TOO_LONG_CARD))
    await cards(make_context(), make_ample_budget())
    assert (await read_cards(make_context()))[make_note_text(0)]["model"] == MODEL
    message = server.calls[1].body["contents"][-1]["parts"][0]["text"]
    assert "summary: String should have at most 400 characters" in message


async def test_repeated_invalid_answers_end_in_an_extractive_card(
    make_context: MakeContext, server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(10))
    server.replies_by_words[ODD] = make_json_reply(TOO_LONG_CARD)

    report = await run_hourly(make_context, 4)
    assert len(report.failures) == 1
    assert "answered twice" in report.failures[0].reason
    odd = (await read_chunks_by_text(make_context()))[make_note_text(3)]
    assert odd["tries"] == {"card": 4}
    assert "card" in odd["pending"]

    report = await cards(make_context(NOON + timedelta(hours=5)), make_ample_budget())
    assert report.failures == []
    assert report.counts == {"cards": 1, "extractive": 1}
    assert len(await read_cards(make_context())) == 10


async def test_a_text_that_always_fails_is_dead_lettered(
    make_context: MakeContext, server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(10))
    server.replies_by_words[ODD] = make_error_reply(503, retry_after="3600")

    report = await run_hourly(make_context, 5)

    ctx = make_context(NOON + timedelta(days=2))
    assert len(report.failures) == 1
    assert len(await read_cards(ctx)) == 9
    odd = (await read_chunks_by_text(ctx))[make_note_text(3)]
    assert "card" not in odd["pending"]
    assert odd["parked"]["card"].startswith("UNAVAILABLE")
    assert await cards(ctx, make_ample_budget()) == Report()

    server.replies_by_words.clear()
    assert JOB.dead_letters is not None
    assert await JOB.dead_letters.retry(ctx) == 1
    assert (await cards(ctx, make_ample_budget())).counts == {"cards": 1, "by language model": 1}


async def test_a_run_without_time_makes_no_card(make_context: MakeContext) -> None:
    await ingest_sources(make_context(), make_source_of_notes(3))
    report = await cards(make_context(), make_spent_budget())
    assert report.counts == {}
    assert not report.finished


async def test_a_run_out_of_time_keeps_its_cards(make_context: MakeContext) -> None:
    await ingest_sources(make_context(), make_source_of_notes(12))
    report = await cards(make_context(), make_one_step_budget())
    assert report.counts["cards"] == 8
    assert not report.finished
    assert await count_pending(make_context()) == 4
    report = await cards(make_context(), make_ample_budget())
    assert report.counts == {"cards": 4, "by language model": 4}


async def test_the_probe_is_long_enough_for_the_model(
    make_context: MakeContext, server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(1))
    server.replies_by_words["number 0 "] = make_blocked_reply()
    ctx = make_context()
    await cards(ctx, make_ample_budget())
    assert server.calls[-1].text.endswith(PROBE)
    assert ctx.meter.output_tokens > 0


async def test_renewal_queues_the_cards_of_another_model(
    make_context: MakeContext, settings: Settings
) -> None:
    """All cards are extractive first; then one of a long note is written by hand."""
    without_model = make_cards_context(settings)
    _, _, chunk, *_ = await ingest_sources(without_model, make_source_of_notes(3), BAKING)
    await cards(without_model, make_ample_budget())
    by_hand = {"model": BY_HAND, "summary": "Written by hand."}
    await set_fields(without_model, f"chunks/{chunk.chunk_id}", {"knowledge_card": by_hand})
    assert JOB.renew is not None

    assert await JOB.renew(make_context()) == 2
    assert await count_pending(without_model) == 2
    report = await cards(make_context(LATER), make_ample_budget())
    assert report.counts == {"cards": 2, "by language model": 2}

    made_by = {text: card["model"] for text, card in (await read_cards(without_model)).items()}
    assert Counter(made_by.values()) == Counter({MODEL: 2, "extractive": 3, BY_HAND: 1})
    assert made_by[chunk.content] == BY_HAND
    assert await JOB.renew(make_context()) == 0
    assert await JOB.renew(without_model) == 2


async def test_the_cost_of_a_run_has_its_tokens(settings: Settings, server: FakeVertex) -> None:
    generator = make_generator(server)
    app = App(settings, generator=generator)
    await ingest_sources(make_cards_context(settings), make_source_of_notes(2))
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.cost.output_tokens > 0
    await app.aclose()
    await generator.aclose()
