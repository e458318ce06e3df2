"""Jobs use a language model of one's own: any endpoint that speaks OpenAI's chat completions."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.extract.job import JOB as EXTRACT
from shared.core.errors import InvalidInput
from shared.firestore.runs import Runs
from shared.runtime.context import App
from shared.runtime.job import Job, Report, run_job
from tests.support.apps import Apps
from tests.support.cards import make_card_reply, make_note_text, make_source_of_notes, read_cards
from tests.support.extract_job import KEYS, make_reported_decision
from tests.support.fakes.openai import CHAT_MODEL, FakeOpenAI
from tests.support.jobs import make_job_context
from tests.support.knowledge import ingest_sources
from tests.support.small_sources import make_source
from tests.support.stored_documents import read_documents
from tests.support.themed_passages import THEMES, add_sources, make_themed_source

KEY = "sk-own"


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """An endpoint that has a language model and requires a key."""
    with FakeOpenAI() as endpoint:
        endpoint.keys = {KEY}
        endpoint.answers["GeneratedCard"] = make_card_reply
        yield endpoint


@pytest.fixture
def app(apps: Apps, server: FakeOpenAI) -> App:
    """The app whose settings name the endpoint."""
    return apps(
        generation_provider="openai",
        generation_base_url=server.base_url,
        generation_model=CHAT_MODEL,
        generation_api_key=SecretStr(KEY),
    )


async def run(job: Job, app: App) -> Report:
    report = await run_job(job, app)
    assert isinstance(report, Report)
    return report


async def test_cards_are_written_and_their_tokens_recorded(app: App, server: FakeOpenAI) -> None:
    ctx = make_job_context(app)
    await ingest_sources(ctx, make_source_of_notes(2))
    report = await run(CARDS, app)
    assert report.counts["by language model"] == 2
    cards = await read_cards(ctx)
    assert {cards[make_note_text(number)]["model"] for number in range(2)} == {CHAT_MODEL}
    [stored] = await Runs(ctx.database).load_latest("cards", 1)
    assert stored.input_tokens > 0
    assert stored.output_tokens > 0
    assert {call.key for call in server.calls} == {KEY}


async def test_an_answer_that_stays_invalid_fails_alone(app: App, server: FakeOpenAI) -> None:
    def answer(text: str) -> Any:
        return {"summary": "No takeaways."} if "number 1 " in text else make_card_reply(text)

    server.answers["GeneratedCard"] = answer
    ctx = make_job_context(app)
    await ingest_sources(ctx, make_source_of_notes(3))
    report = await run(CARDS, app)
    assert report.counts["by language model"] == 2
    [failure] = report.failures
    assert "answered again in another shape" in failure.reason


async def test_decisions_are_extracted(app: App, server: FakeOpenAI) -> None:
    server.answers["Findings"] = lambda _: {"decisions": [make_reported_decision()]}
    ctx = make_job_context(app)
    await ingest_sources(ctx, make_source("keys", KEYS))
    assert (await run(EXTRACT, app)).counts["found"] == 1
    [extraction] = (await read_documents(ctx, "extractions")).values()
    assert extraction["model"] == CHAT_MODEL


async def test_clusters_are_named(app: App, server: FakeOpenAI) -> None:
    server.answers["ClusterName"] = lambda text: {
        "name": f"All about {next(name for name in THEMES if f'On {name}' in text)}",
        "description": "It is about a theme.",
        "keywords": ["one", "two", "three"],
    }
    ctx = make_job_context(app)
    await add_sources(ctx, *map(make_themed_source, THEMES))
    assert (await run(CLUSTER, app)).counts["named"] == len(THEMES)


@pytest.mark.parametrize("missing", ["generation_base_url", "generation_model"])
async def test_an_endpoint_without_address_or_model_is_an_error(
    apps: Apps, server: FakeOpenAI, missing: str
) -> None:
    """Otherwise, texts would go to a service that nobody chose."""
    settings: dict[str, Any] = {
        "generation_base_url": server.base_url,
        "generation_model": CHAT_MODEL,
    }
    del settings[missing]
    incomplete = apps(generation_provider="openai", **settings)
    with pytest.raises(InvalidInput, match="also needs GENERATION_BASE_URL and GENERATION_MODEL"):
        await run_job(CARDS, incomplete)
