"""All jobs of a night, run on the whole sample: as a Readwise library, and with a fake Vertex AI.

The results are the same on any machine: vectors are counts of hashed words, and answers consist of
the passage's own sentences.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.extract.job import JOB as EXTRACT
from functions.jobs.health.job import JOB as HEALTH
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from functions.jobs.purge.job import JOB as PURGE
from functions.jobs.repair.job import JOB as REPAIR
from functions.jobs.trust.job import JOB as TRUST
from infra.local.local_database import SAMPLE
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    NO_CANDIDATES,
    FakeVertex,
    Reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
    make_vector_reply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.dates import Clock
    from shared.runtime.job import Job
    from tests.support.database_state import State
    from tests.support.fakes.vertex import Call

JOBS_IN_ORDER: Final = (INGEST, EMBED, CARDS, CLUSTER, EXTRACT, INDEX, REPAIR, TRUST, HEALTH, PURGE)
"""The jobs of a night, in order."""
STATE_FILE: Final = Path(__file__).with_name("sample_state.json")
FRIDAY: Final = "friday"
"""A word in two highlights of different sources. The model reports the same warning for both, so
the second is a duplicate."""
TOPICS: Final = ("Tests", "code-review", "incidents", "schemas", "APIs", "benchmarks", "writing")
TRANSIENT_FAULTS: Final = (
    make_error_reply(429, "RESOURCE_EXHAUSTED"),
    make_error_reply(500, "INTERNAL"),
    CUT_CONNECTION,
)
INVALID_ANSWERS: Final = (
    make_text_reply("{"),
    make_json_reply([]),
    NO_CANDIDATES,
    make_text_reply('{"summary": "A', finish="MAX_TOKENS"),
)
_WORD: Final = re.compile(r"\w{5,}")
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]+")
_COUNTS_PER_WORD: Final = 8
_NEVER: Final = re.compile(r"\b(never|nicht)\b", re.IGNORECASE)


class WordVertex(FakeVertex):
    """A fake Vertex AI. Texts that share words get similar vectors.

    Attributes:
        flaky: Whether the first request for most texts fails, with a rate limit, an internal error
            or an invalid answer. The second request succeeds.
    """

    def __init__(self) -> None:
        """Reply with cards, names and findings from the text."""
        super().__init__()
        self.answers |= {
            "GeneratedCard": make_card,
            "ClusterName": make_cluster_name,
            "Findings": make_findings,
        }
        self.flaky = False
        self._first_calls: dict[tuple[str, str], Call] = {}

    @property
    def generated(self) -> int:
        """The number of requests to the language model."""
        return sum(call.generates for call in list(self.calls))

    def arrive(self, call: Call) -> Reply:
        """Record a request and choose its reply."""
        reply = super().arrive(call)
        if self.flaky and self._first_calls.setdefault((call.path, call.text), call) is call:
            faults = (*TRANSIENT_FAULTS, *INVALID_ANSWERS) if call.generates else TRANSIENT_FAULTS
            reply = (Reply(), *faults)[len(call.text) % (1 + len(faults))]
        if call.generates or reply != Reply():
            return reply
        return make_vector_reply(hash_words(call.text, call.config["outputDimensionality"]))


def hash_words(text: str, dimension: int) -> list[int]:
    """Return a vector of hashed word counts, as integers that are the same on every machine."""
    values = [0] * dimension
    for word in _WORD.findall(text.casefold()):
        digest = hashlib.sha256(word.encode()).digest()
        for start in range(0, 2 * _COUNTS_PER_WORD, 2):
            dimension_index = int.from_bytes(digest[start : start + 2], "big") % dimension
            values[dimension_index] += 1 if digest[start + 2 * _COUNTS_PER_WORD] % 2 else -1
    return values if any(values) else [1] * dimension


def make_card(text: str) -> dict[str, Any]:
    """Return a card with the longest sentence as its summary, and the first three as takeaways."""
    title, _, passage = text.partition("\n\n")
    lines = find_sentences(passage)
    summary = f"Of {title.casefold()}, most is said by: {max(lines, key=len)}"
    takeaways = [f"{number}. {line}"[:300] for number, line in enumerate((lines * 3)[:3], start=1)]
    return {"summary": summary[:400], "takeaways": takeaways}


def make_cluster_name(text: str) -> dict[str, Any]:
    """Return a cluster name made of the words that its passages share."""
    keywords = text.partition("\n")[0].partition(": ")[2].split(", ")
    name = " ".join(["All about", *" and ".join(keywords[:2]).split()][:6])
    return {"name": name, "description": f"It is about {keywords[0]}.", "keywords": keywords[:8]}


def make_findings(text: str) -> dict[str, Any]:
    """Return findings that quote a passage's sentences; some get a false quote."""
    lines = find_sentences(text.partition("\n\n")[2])
    decisions = [_make_finding(line, lines, _make_decision) for line in lines if line.endswith("?")]
    warnings = [_make_finding(line, lines, _make_warning) for line in lines if _NEVER.search(line)]
    fridays = [
        _make_finding(line, lines, _make_friday) for line in lines if FRIDAY in line.casefold()
    ]
    methodologies = [
        _make_finding(line, lines, _make_methodology) for line in lines if line.startswith("First")
    ]
    patterns = [_make_finding(line, lines, _make_pattern) for line in lines if " because " in line]
    invented = [_make_finding("Rubber ducks are banned here.", lines, _make_pattern)] * (
        len(lines) % 5 == 0
    )
    return {
        "decisions": decisions[:1],
        "warnings": warnings[:1] + fridays[:1],
        "patterns": patterns[:1] + invented,
        "methodologies": methodologies[:1],
    }


def find_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [item.strip() for item in _SENTENCE.findall(text) if len(item.strip()) > 20] or [text]


def _make_finding(line: str, lines: list[str], content: Any) -> dict[str, Any]:
    words = line.casefold()
    topics = [item for item in TOPICS if item.casefold()[:4] in words] or ["Software Craft"]
    confidence = round(0.5 + len(" ".join(lines)) % 50 / 100, 2)
    return {
        "quote": line,
        "content": content(line, lines),
        "topics": topics,
        "confidence": confidence,
    }


def _make_decision(line: str, lines: list[str]) -> dict[str, Any]:
    others = [item[:300] for item in lines if item != line]
    return {
        "question": line[:300],
        "options": others[:2],
        "considerations": others[2:3],
        "recommended_approach": lines[-1],
    }


def _make_warning(line: str, lines: list[str]) -> dict[str, Any]:
    return {"title": _take_few_words(line), "description": line, "symptoms": [lines[0][:300]]}


def _make_friday(_line: str, _lines: list[str]) -> dict[str, Any]:
    description = "What happens on a Friday stays until Monday, and by then the trail is cold."
    return {"title": "Fridays end the week", "description": description}


def _make_methodology(line: str, lines: list[str]) -> dict[str, Any]:
    steps = [
        {"order": number, "title": _take_few_words(item), "description": item}
        for number, item in enumerate(lines[:4], start=1)
    ]
    return {"name": _take_few_words(line), "steps": steps}


def _make_pattern(line: str, lines: list[str]) -> dict[str, Any]:
    return {"name": _take_few_words(line), "problem": lines[0], "solution": line}


def _take_few_words(line: str) -> str:
    return " ".join(line.split()[:6])


def read_pinned_state() -> State:
    """Return the pinned final state of the sample."""
    state: State = json.loads(STATE_FILE.read_text(encoding="utf-8"))
    return state


def fill_library(readwise: FakeReadwise) -> None:
    """Add the sample's books to a library."""
    for book in read_exported_books():
        fields = {name: value for name, value in book.items() if name != "highlights"}
        readwise.put_book(book["user_book_id"], **fields)
        for position, highlight in enumerate(book["highlights"]):
            readwise.put_highlight(position=position, **highlight)


def read_exported_books() -> list[dict[str, Any]]:
    """Return the sample's books in Readwise's format."""
    export: dict[str, list[dict[str, Any]]] = json.loads(SAMPLE.read_text(encoding="utf-8"))
    return export["results"]


def write_credentials_file(folder: Path) -> Path:
    """Write a file for GOOGLE_APPLICATION_CREDENTIALS whose token never expires."""
    path = folder / "credentials.json"
    credentials = {
        "type": "authorized_user",
        "client_id": "a-test",
        "client_secret": "a-test",
        "refresh_token": "a-test",
        "token": "a-test",
        "expiry": "2999-12-31T00:00:00Z",
        "quota_project_id": "a-test",
    }
    path.write_text(json.dumps(credentials), encoding="utf-8")
    return path


def make_settings(project: str, readwise: FakeReadwise, vertex: FakeVertex) -> Settings:
    """Return the settings of a deployment that syncs the library and uses Google's models."""
    return Settings(
        google_cloud_project=project,
        readwise_token=SecretStr(TOKEN),
        readwise_url=readwise.base_url,
        embedding_provider="vertex",
        generation_provider="vertex",
        vertex_base_url=vertex.base_url,
    )


@asynccontextmanager
async def open_app(settings: Settings, clock: Clock) -> AsyncIterator[App]:
    """Open an app, as a new process does."""
    app = App(settings, clock=clock)
    yield app
    await app.aclose()


async def run_all_jobs(settings: Settings, clock: Clock) -> dict[str, Report]:
    """Run each job once, in a new app, and return the reports."""
    return {job.name: await run_single_job(job, settings, clock) for job in JOBS_IN_ORDER}


async def run_single_job(job: Job, settings: Settings, clock: Clock) -> Report:
    """Run a job until it is finished."""
    async with open_app(settings, clock) as app:
        report = await run_job(job, app)
    assert isinstance(report, Report)
    return report
