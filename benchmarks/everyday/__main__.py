"""Questions that people ask about texts of their own, in five languages.

Usage: python -m benchmarks.everyday

`base.json` is a Readwise export of what one person might keep: recipes, contracts, minutes, books,
letters, notes on code. `questions.json` has questions on it, each with the passages that answer it,
by the last two parts of their address in Readwise. A question without any is not answerable. The
base is ingested, embedded and indexed by the jobs, and `search_kb` answers.

Every other question belongs to the tuning half, on which constants may be chosen. Report the other.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Final

from benchmarks.database import use_database
from benchmarks.measurement import print_table
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.log import log_only_warnings
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import run_job

BASE: Final = Path(__file__).with_name("base.json")
QUESTIONS: Final = Path(__file__).with_name("questions.json")
HALVES: Final = ("tuning", "reported")
TOP: Final = 3


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the base.

    Attributes:
        right: The passages that answer it. Empty if there are none.
        language: The language of the question.
        languages: The languages of the passages that answer it.
        kind: What the question names beside its subject: a date, an author, code, or what is
            latest. Empty if nothing.
    """

    text: str
    right: frozenset[str]
    language: str
    languages: frozenset[str]
    kind: str

    @property
    def is_answerable(self) -> bool:
        """Whether the base has an answer."""
        return bool(self.right)

    @property
    def is_within(self) -> bool:
        """Whether the base answers in the language of the question."""
        return self.language in self.languages


@dataclass(frozen=True, slots=True)
class Answer:
    """What `search_kb` answered.

    Attributes:
        rank: The rank of the first right passage, from 1. None if it is not among the hits.
        seconds: How long the search took.
    """

    question: Question
    rank: int | None
    matches: bool
    reads: int
    round_trips: int
    seconds: float

    def is_in_first(self, count: int) -> bool:
        """Whether a right passage is among the first hits."""
        return self.rank is not None and self.rank <= count


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the questions of a kind, and the goals.

    Attributes:
        goal: The goal for the share of right passages at first and in three, or of `matches`.
    """

    name: str
    includes: Callable[[Question], bool]
    goal: str


def _has_kind(kind: str) -> Callable[[Question], bool]:
    return lambda question: question.kind == kind


ROWS: Final = (
    Row("within one language", lambda question: question.is_within, "80 / 95"),
    Row("across languages", lambda q: q.is_answerable and not q.is_within, "45 / 80"),
    Row("about a date", _has_kind("date"), "90 / 100"),
    Row("latest", _has_kind("latest"), "85 / 90"),
    Row("an author's name", _has_kind("author"), "92 / -, 0 no match"),
    Row("names in code", _has_kind("code"), "- / 90"),
    Row("answerable", lambda question: question.is_answerable, "under 10 no match"),
    Row("not answerable", lambda question: not question.is_answerable, "75 no match"),
    Row("- in English", lambda q: not q.is_answerable and q.language == "en", ""),
    Row("- in other languages", lambda q: not q.is_answerable and q.language != "en", ""),
)


def read_questions() -> list[Question]:
    """Return the questions in their order."""
    languages = {
        _get_name(highlight["readwise_url"]): book["language"]
        for book in json.loads(BASE.read_text("utf-8"))["results"]
        for highlight in book["highlights"]
    }
    return [
        Question(
            row["question"],
            frozenset(row["right"]),
            row["language"],
            frozenset(languages[name] for name in row["right"]),
            row.get("kind", ""),
        )
        for row in json.loads(QUESTIONS.read_text("utf-8"))
    ]


def _get_name(url: str) -> str:
    """Return the name of a passage: the last two parts of its address."""
    return "/".join(url.split("/")[-2:])


async def ask(app: App, question: Question) -> Answer:
    """Search for a question twice.

    The first search takes the time to embed the question. Only the second counts round trips,
    because a request that waits for the vector seems to wait for others.
    """
    arguments = In(query=question.text)
    started = time.perf_counter()
    await search_kb(arguments, app.context(Caller(), Meter()))
    seconds = time.perf_counter() - started
    meter = Meter()
    out = await search_kb(arguments, app.context(Caller(), meter))
    names = [_get_name(hit.readwise_url or "") for hit in out.results]
    ranks = [rank for rank, name in enumerate(names, 1) if name in question.right]
    return Answer(
        question,
        min(ranks, default=None),
        out.matches,
        meter.documents_read,
        meter.round_trips,
        seconds,
    )


def make_cells(row: Row, answers: list[Answer]) -> list[str]:
    """Return the cells of a row, in percent of the questions."""
    chosen = [answer for answer in answers if row.includes(answer.question)]
    found = " / ".join(
        f"{100 * mean(answer.is_in_first(count) for answer in chosen):.0f}" for count in (1, TOP)
    )
    no_match = f"{100 * mean(not answer.matches for answer in chosen):.0f}"
    is_answerable = chosen[0].question.is_answerable
    return [row.name, str(len(chosen)), found if is_answerable else "", no_match, row.goal]


async def measure() -> None:
    """Fill the base, ask all questions, and print a table for each half."""
    app = App(Settings(ingest_path=str(BASE)))
    for job in (INGEST, EMBED, INDEX):
        await run_job(job, app)
    answers = [await ask(app, question) for question in read_questions()]
    await app.aclose()
    columns = ["", "questions", "first / in three", "no match", "goal"]
    for number, half in enumerate(HALVES):
        rows = [make_cells(row, answers[number :: len(HALVES)]) for row in ROWS]
        print_table(f"{half} half, % of questions", columns, rows)
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
