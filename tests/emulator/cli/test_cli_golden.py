"""`carrel golden add` and `carrel why`; `tests/e2e/test_browse_commands.py` runs golden queries."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.cli.golden import find_places
from infra.local import local_database
from infra.local.client import Answer
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Section, Source
from shared.runtime import context
from shared.runtime.context import App
from tests.support.commands import expect_error, run_carrel, run_with_app
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, store_sources
from tests.support.small_sources import make_source
from tests.support.tool_calls import call_result

QUESTION = "sourdough starter"


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    """The embedder of the command, which compares words."""
    word_embedder = WordEmbedder()
    monkeypatch.setattr(context, "_make_embedder", lambda _: word_embedder)
    return word_embedder


def store(*sources: Source) -> list[Chunk]:
    async def work(app: App) -> list[Chunk]:
        return await store_sources(make_job_context(app), *sources)

    return run_with_app(work, embedder=WordEmbedder())


def explain(chunk_id: str) -> list[str]:
    result = run_carrel("why", QUESTION, chunk_id)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_a_golden_query_is_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_database, "STATE", tmp_path / "state")
    chunk_id = store(BAKING)[1].chunk_id
    file = tmp_path / "state" / "golden.jsonl"
    first, second = (run_carrel("golden", "add", QUESTION, chunk_id) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stdout.startswith(f"{file} has this golden query. ")
    assert json.loads(file.read_text()) == {"query": QUESTION, "chunk_id": chunk_id}


def test_a_golden_query_needs_a_passage_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    error = expect_error("golden", "add", QUESTION, "none", "--file", str(file))
    assert "There is no passage none." in error
    assert not file.exists()


@pytest.mark.parametrize("question", ["", " \n", "x" * 2_001])
def test_a_golden_query_needs_a_question_that_search_accepts(question: str) -> None:
    result = run_carrel("golden", "add", question, "none")
    assert (result.exit_code, "1 to 2,000 characters" in result.stderr) == (2, True)


async def test_a_copy_has_the_place_of_the_hit_that_names_it(app: App) -> None:
    text = "The sourdough starter eats flour and water."
    sources = make_source("a", text), make_source("b", text)
    chunks = await store_sources(make_job_context(app), *sources)

    async def call_tool(tool: str, arguments: dict[str, Any]) -> Answer:
        return Answer(await call_result(app, tool, **arguments), "")

    pairs = [(QUESTION, chunk.chunk_id) for chunk in chunks]
    assert await find_places([*pairs, (QUESTION, "none")], call_tool) == [1, 1, 0]


def test_a_run_without_golden_queries_says_how_to_add_one(tmp_path: Path) -> None:
    error = expect_error("golden", "run", "--file", str(tmp_path / "golden.jsonl"))
    assert "carrel golden add QUESTION CHUNK_ID" in error


def test_why_shows_place_scores_and_what_is_above() -> None:
    chunks = store(
        make_source("first", "The sourdough starter eats flour and water."),
        make_source("second", "Of sourdough I know little, and of other bread nothing at all."),
        make_source("third", "Sails are made of cloth."),
    )
    sentence, header, first, second = explain(chunks[1].chunk_id)
    assert sentence == "Place 2 of 3 passages that were compared."
    assert " ".join(header.split()) == "PLACE ANSWERS MEANING WORDS MATCHING WORDS PASSAGE"
    assert first.split()[:2] == ["1", "yes"]
    assert "sourdough, starter" in first
    assert second.split()[:2] == ["2", "no"]
    assert f" sourdough {chunks[1].chunk_id} Of sourdough I know" in " ".join(second.split())
    meaning, words = zip(*(map(float, row.split()[2:4]) for row in (first, second)), strict=True)
    assert meaning[0] > meaning[1]
    assert words[0] > words[1] > 0


def test_why_compares_a_passage_that_the_search_left_out() -> None:
    near = Source("near", "Bread", sections=tuple(Section(f"{QUESTION} {n}") for n in range(60)))
    *_, far = store(near, make_source("far", "Sails are made of cloth."))
    sentence, _, *rows = explain(far.chunk_id)
    assert sentence.startswith("Not among the ")
    assert [row.split()[0] for row in rows] == [*map(str, range(1, 10)), "-"]
    _, answers, similarity, words, chunk_id, *_ = rows[-1].split()
    assert (answers, words, chunk_id) == ("no", "0.00", far.chunk_id)
    assert float(similarity) < 0.5


def test_why_names_the_passage_that_a_copy_is_folded_into() -> None:
    text = "The sourdough starter eats flour and water."
    copies = {chunk.chunk_id for chunk in store(make_source("a", text), make_source("b", text))}
    sentences = {chunk_id: explain(chunk_id)[0] for chunk_id in copies}
    [folded] = [chunk_id for chunk_id in copies if sentences[chunk_id].startswith("Place 2 ")]
    [first] = copies - {folded}
    assert sentences[first] == "Place 1 of 2 passages that were compared."
    assert sentences[folded].endswith(f" Search folds it into {first}, which says the same.")


def test_why_says_that_a_passage_is_kept_out() -> None:
    [chunk] = store(make_source("diary", "My sourdough starter died.", tags=("keep-out",)))
    sentence, *_ = explain(chunk.chunk_id)
    assert sentence.startswith("Not compared, as it is kept out")


def test_why_says_that_there_is_no_such_passage() -> None:
    assert "There is no passage none." in expect_error("why", QUESTION, "none")
