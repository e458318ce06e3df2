"""The cards job gives every pending chunk its card, even if others fail."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.cards.generated import PROBE
from functions.jobs.cards.job import JOB, cards, count_pending
from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.knowledge.cards import BY_HAND
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from datetime import datetime

    from shared.core.settings import Settings
    from shared.runtime.context import Context

PATIENCE: Final = 60.0
"""A time limit in seconds that only a hanging request reaches."""

pytestmark = pytest.mark.anyio

ODD = "number 3 "
LONG = {"summary": "s" * 401, "takeaways": ["One.", "Two.", "Three."]}
LATER = NOON + timedelta(hours=1)


@pytest.fixture
def server() -> Iterator[FakeVertex]:
    """A fake language model."""
    with FakeVertex() as vertex:
        vertex.answers["GeneratedCard"] = make_card_reply
        yield vertex


@pytest.fixture
async def make_context(
    settings: Settings, server: FakeVertex
) -> AsyncIterator[Callable[..., Context]]:
    """A function that makes the context of a run with a language model, at another time."""
    generator = make_generator(server)
    yield lambda moment=NOON: make_cards_context(settings, generator, moment)
    await generator.aclose()


def make_numbered_reply(number: int) -> dict[str, Any]:
    return {
        **make_card_reply(f"Notes on Bread\n\n{make_note_text(number)}"),
        "model": MODEL,
        "generated_at": NOON,
    }


async def run_hourly(make_context: Callable[..., Context], count: int) -> tuple[Report, datetime]:
    """Run the job this often, an hour apart. Return the last report and its time."""
    moment, report = NOON, Report()
    for number in range(count):
        moment = NOON + timedelta(hours=number)
        report = await cards(make_context(moment), make_ample_budget())
    return report, moment


async def test_each_chunk_gets_the_models_card(
    make_context: Callable[..., Context],
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(10))
    report = await cards(ctx, make_ample_budget())
    assert report == Report(Counter({"cards": 10, "by language model": 10}))
    assert {
        make_note_text(number): make_numbered_reply(number) for number in range(10)
    } == await read_cards(ctx)
    for data in (await read_chunks(ctx)).values():
        assert set(data["pending"]) == {"embed", "index", "extract"}


async def test_report_counts_the_models_tokens(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    server.script.append(make_json_reply(LONG, (100, 20, 3)))
    server.script.append(make_json_reply(LONG | {"summary": "Short."}, (200, 30, 4)))
    await cards(ctx, make_ample_budget())
    assert ctx.meter.input_tokens == 300
    assert ctx.meter.output_tokens == 57


async def test_interrupted_run_reports_its_tokens(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    server.script.append(make_json_reply(LONG, (100, 20, 3)))
    server.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
    with pytest.raises(Unavailable):
        await cards(ctx, make_ample_budget())
    assert ctx.meter.input_tokens == 100
    assert ctx.meter.output_tokens == 23


@pytest.mark.parametrize(
    "probed",
    [make_json_reply(make_card_reply(PROBE), (40, 5, 0)), make_text_reply("", tokens=(40, 5, 0))],
)
async def test_tokens_of_the_probe_are_counted(
    make_context: Callable[..., Context], server: FakeVertex, probed: Reply
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    server.replies_by_words["number 0 "] = make_text_reply("", finish="SAFETY", tokens=(60, 2, 0))
    server.replies_by_words[PROBE] = probed
    with suppress(PlatformFault):
        await cards(ctx, make_ample_budget())
    probes = sum(call.text.endswith(PROBE) for call in server.calls)
    others = len(server.calls) - probes
    assert others == 1
    assert probes > 0
    expected = (60 * others + 40 * probes, 2 * others + 5 * probes)
    assert (ctx.meter.input_tokens, ctx.meter.output_tokens) == expected


async def test_a_chunk_costs_a_read_and_a_write(make_context: Callable[..., Context]) -> None:
    await ingest_sources(make_context(), make_source_of_notes(20))
    ctx = make_context()
    await cards(ctx, make_ample_budget())
    assert ctx.meter.documents_read == 21
    assert ctx.meter.documents_written == 20


async def test_a_run_with_nothing_to_do_costs_one_read(
    make_context: Callable[..., Context], server: FakeVertex
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
    card = {
        "summary": make_note_text(1),
        "takeaways": [],
        "model": "extractive",
        "generated_at": NOON,
    }
    assert (await read_cards(ctx))[make_note_text(1)] == card


async def test_text_without_a_sentence_loses_its_card(
    settings: Settings,
) -> None:
    ctx = make_cards_context(settings)
    code = "```\nx = 1\n```"
    await ingest_sources(ctx, Source("code", "Code", sections=(Section(code),)))
    ((name, _),) = (await read_chunks(ctx)).items()
    await set_fields(ctx, f"chunks/{name}", {"knowledge_card": {"summary": "Old."}})
    await cards(ctx, make_ample_budget())
    assert await read_cards(ctx) == {}
    assert await count_pending(ctx) == 0


async def test_short_text_is_not_sent_to_the_model(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, BAKING)
    assert (await cards(ctx, make_ample_budget())).counts == {"cards": 3, "extractive": 3}
    assert server.calls == []


async def test_only_a_changed_text_gets_a_new_card(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(2))
    await cards(make_context(), make_ample_budget())
    server.calls.clear()
    changed = Section(f"{make_note_text(1)} It is eaten warm.")
    sections = (make_source_of_notes(2).sections[0], changed)
    await ingest_sources(
        make_context(),
        replace(make_source_of_notes(2), sections=sections, title="Bread", tags=("new",)),
    )
    ctx = make_context(LATER)
    assert (await cards(ctx, make_ample_budget())).counts == {"cards": 1, "by language model": 1}
    assert [call.text for call in server.calls] == [f"Bread\n\n{changed.text}"]
    times = {text: card["generated_at"] for text, card in (await read_cards(ctx)).items()}
    assert {make_note_text(0): NOON, changed.text: LATER} == times


async def test_chunk_edited_during_the_run_gets_a_new_card(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    ctx = make_context()
    await ingest_sources(ctx, make_source_of_notes(1))
    ((name, _),) = (await read_chunks(ctx)).items()
    requested, rewritten = threading.Event(), threading.Event()

    def slowly(text: str) -> object:
        requested.set()
        assert rewritten.wait(PATIENCE)
        return LONG | {"summary": "New." if "says now" in text else "Old."}

    server.answers["GeneratedCard"] = slowly
    running = asyncio.create_task(cards(ctx, make_ample_budget()))
    assert await asyncio.to_thread(requested.wait, PATIENCE)
    new = f"This is what it says now. {make_note_text(0)}"
    await set_fields(ctx, f"chunks/{name}", {"content": new, "content_hash": "new"})
    rewritten.set()
    assert (await running).counts == {"cards": 1, "by language model": 2}
    assert (await read_cards(ctx))[new]["summary"] == "New."


async def test_outage_stops_the_run_and_defers_no_chunk(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(12))
    for number in range(5):
        server.script.extend([Reply()] * number)
        server.usual = make_error_reply(503, "UNAVAILABLE", retry_after="60")
        with pytest.raises(Unavailable):
            await cards(make_context(), make_ample_budget())
    assert all(
        (data["tries"], data["parked"]) == ({}, {})
        for data in (await read_chunks(make_context())).values()
    )
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
async def test_misconfigured_model_defers_no_chunk(
    make_context: Callable[..., Context], server: FakeVertex, reply: Reply, error: type[Exception]
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(3))
    server.usual = reply
    with pytest.raises(error):
        await cards(make_context(), make_ample_budget())
    assert await read_cards(make_context()) == {}
    assert all(data["tries"] == {} for data in (await read_chunks(make_context())).values())


@pytest.mark.parametrize("reply", [make_blocked_reply(), make_error_reply(400, "INVALID_ARGUMENT")])
async def test_refused_text_gets_an_extractive_card_at_once(
    make_context: Callable[..., Context], server: FakeVertex, reply: Reply
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(10))
    server.replies_by_words[ODD] = reply
    report = await cards(make_context(), make_ample_budget())
    assert report.counts == {"cards": 10, "by language model": 9, "extractive": 1}
    assert report.failures == []
    assert (await read_cards(make_context()))[make_note_text(3)]["model"] == "extractive"


async def test_overlong_summary_is_reported_and_retried(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(1))
    server.script.append(make_json_reply(LONG))
    await cards(make_context(), make_ample_budget())
    assert (await read_cards(make_context()))[make_note_text(0)]["model"] == MODEL
    message = server.calls[1].body["contents"][-1]["parts"][0]["text"]
    assert "summary: String should have at most 400 characters" in message


async def test_repeated_bad_answers_end_in_an_extractive_card(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(10))
    server.replies_by_words[ODD] = make_json_reply(LONG)
    report, _ = await run_hourly(make_context, 4)
    assert len(report.failures) == 1
    assert "answered twice" in report.failures[0].reason
    odd = (await read_chunks_by_text(make_context()))[make_note_text(3)]
    assert odd["tries"] == {"card": 4}
    assert "card" in odd["pending"]
    report = await cards(make_context(NOON + timedelta(hours=5)), make_ample_budget())
    assert report.failures == []
    assert report.counts == {"cards": 1, "extractive": 1}
    assert len(await read_cards(make_context())) == 10


async def test_text_that_always_fails_is_dead_lettered(
    settings: Settings, server: FakeVertex
) -> None:
    generator = make_generator(server)
    await ingest_sources(make_cards_context(settings), make_source_of_notes(10))
    server.replies_by_words[ODD] = make_error_reply(503, retry_after="3600")
    report, moment = await run_hourly(
        lambda moment: make_cards_context(settings, generator, moment), 5
    )
    ctx = make_cards_context(settings, generator, moment + timedelta(days=1))
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
    await generator.aclose()


async def test_run_without_time_makes_no_card(make_context: Callable[..., Context]) -> None:
    await ingest_sources(make_context(), make_source_of_notes(3))
    report = await cards(make_context(), make_spent_budget())
    assert report.counts == {}
    assert not report.finished


async def test_run_out_of_time_keeps_its_cards(make_context: Callable[..., Context]) -> None:
    await ingest_sources(make_context(), make_source_of_notes(12))
    done: list[int] = []
    report = await cards(make_context(), make_one_step_budget(done.append))
    assert report.counts["cards"] == 8
    assert not report.finished
    assert await count_pending(make_context()) == 4
    assert (await cards(make_context(), make_ample_budget())).counts == {
        "cards": 4,
        "by language model": 4,
    }


async def test_probe_is_long_enough_for_the_model(
    make_context: Callable[..., Context], server: FakeVertex
) -> None:
    await ingest_sources(make_context(), make_source_of_notes(1))
    server.replies_by_words[ODD.replace("3", "0")] = make_blocked_reply()
    ctx = make_context()
    await cards(ctx, make_ample_budget())
    assert server.calls[-1].text.endswith(PROBE)
    assert ctx.meter.output_tokens > 0


async def test_renew_queues_cards_of_another_model(
    make_context: Callable[..., Context], settings: Settings
) -> None:
    plain = make_cards_context(settings)
    await ingest_sources(plain, make_source_of_notes(3), BAKING)
    by_hand = {"model": BY_HAND, "summary": "Written by hand."}
    await cards(plain, make_ample_budget())
    name = next(
        name
        for name, data in (await read_chunks(plain)).items()
        if data["content"] == make_note_text(2)
    )
    await set_fields(plain, f"chunks/{name}", {"knowledge_card": by_hand})
    assert JOB.renew is not None
    assert await JOB.renew(make_context()) == 2
    assert await count_pending(plain) == 2
    assert (await cards(make_context(LATER), make_ample_budget())).counts == {
        "cards": 2,
        "by language model": 2,
    }
    made_by = {text: card["model"] for text, card in (await read_cards(plain)).items()}
    assert Counter(made_by.values()) == Counter({MODEL: 2, "extractive": 3, BY_HAND: 1})
    assert await JOB.renew(make_context()) == 0
    assert await JOB.renew(plain) == 2
    assert made_by[make_note_text(2)] == BY_HAND


async def test_run_needs_its_lease(settings: Settings, server: FakeVertex) -> None:
    generator = make_generator(server)
    app = App(settings, generator=generator)
    await ingest_sources(make_cards_context(settings), make_source_of_notes(2))
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.cost.output_tokens > 0
    await app.aclose()
    await generator.aclose()
