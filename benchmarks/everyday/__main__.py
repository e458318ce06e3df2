"""Questions that people ask about texts of their own, in five languages.

Usage: python -m benchmarks.everyday [household]

`base.json` is a Readwise export of what one person might keep: recipes, contracts, minutes, books,
letters, notes on code. `questions.json` has questions on it, each with the passages that answer it,
by the last two parts of their address in Readwise. A question without any is not answerable. The
base is ingested, embedded and indexed by the jobs, and `search_kb` answers.

`household` is a second base with 45 passages and easier questions. Many have no answer in it.

Every other question belongs to the tuning half, on which constants may be chosen. Report the other.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from benchmarks.database import use_database
from benchmarks.measurement import print_table
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from functions.tools.knowledge.search_kb.tool import In, format_result, search_kb
from shared.core.caller import Caller
from shared.core.log import log_only_warnings
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.chunk_repository import Chunks
from shared.runtime.context import App
from shared.runtime.job import run_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PREFIX: Final = "".join(f"{name}." for name in sys.argv[1:2])
BASE: Final = Path(__file__).with_name(f"{_PREFIX}base.json")
QUESTIONS: Final = Path(__file__).with_name(f"{_PREFIX}questions.json")
HALVES: Final = ("tuning", "reported")
TOP: Final = 3
GOALS: Final = {
    "within one language": "80 / 95",
    "across languages": "45 / 80",
    "about a date": "90 / 100",
    "latest": "85 / 90",
    "an author's name": "92, no match 0",
    "names in code": "90",
    "answerable": "no match under 10",
    "answerable, in English": "",
    "answerable, in other languages": "",
    "not answerable": "no match 75",
    "not answerable, in English": "",
    "not answerable, in other languages": "",
}
"""The goal of each row of the table: first / in three, or no match."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the base.

    Attributes:
        right: The passages that answer it.
        rows: The rows of the table to which it belongs.
    """

    text: str
    right: frozenset[str]
    rows: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What `search_kb` answered.

    Attributes:
        rank: The rank of the first right passage, from 1. None if it is not among the hits.
        answering: The number of hits that are said to answer.
        right_answering: The number of right passages among them.
        right_shown: The number of right passages among all hits.
        text_length: The length of the answer as text.
        json_length: Its length as JSON, with the fields for apps.
        seconds: How long the search took.
    """

    question: Question
    rank: int | None
    answering: int
    right_answering: int
    right_shown: int
    text_length: int
    json_length: int
    matches: bool
    reads: int
    round_trips: int
    seconds: float

    def is_in_first(self, count: int) -> bool:
        """Whether a right passage is among the first hits."""
        return self.rank is not None and self.rank <= count


def read_questions() -> list[Question]:
    """Return the questions in their order."""
    languages = {
        _get_name(highlight["readwise_url"]): book["language"]
        for book in json.loads(BASE.read_text("utf-8"))["results"]
        for highlight in book["highlights"]
    }
    return [
        Question(row["question"], frozenset(row["right"]), frozenset(_find_rows(row, languages)))
        for row in json.loads(QUESTIONS.read_text("utf-8"))
    ]


def _find_rows(question: Mapping[str, str], languages: Mapping[str, str]) -> Iterator[str]:
    answerable = "answerable" if question["right"] else "not answerable"
    yield answerable
    asked_in = "English" if question["language"] == "en" else "other languages"
    yield f"{answerable}, in {asked_in}"
    if question["right"]:
        is_within = question["language"] in {languages[name] for name in question["right"]}
        yield "within one language" if is_within else "across languages"
    if "kind" in question:
        yield question["kind"]


def _get_name(url: str) -> str:
    """Return the name of a passage: the last two parts of its address."""
    return "/".join(url.split("/")[-2:])


async def ask(app: App, question: Question, names: Mapping[str, str]) -> Answer:
    """Search for a question twice.

    The first search takes the time to embed the question. Only the second counts round trips,
    because a request that waits for the vector seems to wait for others.

    Args:
        names: The name of each passage, by its id.
    """
    arguments = In(query=question.text)
    started = time.perf_counter()
    await search_kb(arguments, app.context(Caller(), Meter()))
    seconds = time.perf_counter() - started
    meter = Meter()
    out = await search_kb(arguments, app.context(Caller(), meter))
    answering = [names[hit.chunk_id] for hit in out.results if not hit.near]
    hits = [names[hit.chunk_id] for hit in out.results]
    rank = next((rank for rank, name in enumerate(hits, 1) if name in question.right), None)
    return Answer(
        question,
        rank,
        len(answering),
        len(question.right.intersection(answering)),
        len(question.right.intersection(hits)),
        len(format_result(out)),
        len(out.model_dump_json(exclude_none=True)),
        out.matches,
        meter.documents_read,
        meter.round_trips,
        seconds,
    )


def make_row(name: str, answers: Sequence[Answer]) -> list[str]:
    """Return a row of the table, in percent of its questions."""
    chosen = [answer for answer in answers if name in answer.question.rows]
    ranked = [
        f"{100 * mean(answer.is_in_first(count) for answer in chosen):.0f}" for count in (1, TOP)
    ]
    no_match = f"{100 * mean(not answer.matches for answer in chosen):.0f}"
    return [name, str(len(chosen)), " / ".join(ranked), no_match, GOALS[name]]


def make_rows_of_ends(answers: Sequence[Answer]) -> list[list[str]]:
    """Return the rows of the table that tells where answers end."""
    answerable = [answer for answer in answers if answer.question.right]
    others = [answer for answer in answers if not answer.question.right]
    right = sum(len(answer.question.right) for answer in answerable)
    not_answering = 1 - sum(answer.right_answering for answer in answerable) / right
    not_shown = 1 - sum(answer.right_shown for answer in answerable) / right
    return [
        ["right passages that do not answer, %", f"{100 * not_answering:.1f}"],
        ["right passages that are not shown, %", f"{100 * not_shown:.1f}"],
        ["hits that answer", f"{mean(answer.answering for answer in answerable):.1f}"],
        ["the same, if not answerable", f"{mean(answer.answering for answer in others):.1f}"],
        ["characters as text", f"{mean(answer.text_length for answer in answers):.0f}"],
        ["characters as JSON", f"{mean(answer.json_length for answer in answers):.0f}"],
    ]


async def measure() -> None:
    """Fill the base, ask all questions, and print a table for each half."""
    app = App(Settings(ingest_path=str(BASE)))
    for job in (INGEST, EMBED, INDEX):
        await run_job(job, app)
    chunks = await Chunks(app.context(Caller(), Meter()).database).load_newest(1_000)
    names = {chunk.chunk_id: _get_name(chunk.address or "") for chunk in chunks}
    answers = [await ask(app, question, names) for question in read_questions()]
    await app.aclose()
    columns = ["", "questions", "first / in three", "no match", "goal"]
    for number, half in enumerate(HALVES):
        rows = [
            make_row(name, answers[number :: len(HALVES)])
            for name in GOALS
            if any(name in answer.question.rows for answer in answers[number :: len(HALVES)])
        ]
        print_table(f"{half} half, % of questions", columns, rows)
        print_table(
            f"{half} half, where answers end",
            ["", ""],
            make_rows_of_ends(answers[number :: len(HALVES)]),
        )
    rows = [
        ["documents read", f"{mean(answer.reads for answer in answers):.1f}", "95"],
        ["round trips", f"{max(answer.round_trips for answer in answers)}", "3"],
        ["ms", f"{1000 * median(answer.seconds for answer in answers):.1f}", ""],
    ]
    print_table("A search", ["", "", "goal"], rows)


def main() -> None:
    """Measure in an empty database."""
    log_only_warnings()
    use_database()
    asyncio.run(measure())


if __name__ == "__main__":
    main()
