"""Checks against a model, a dict, that each workspace answers from its own texts only.

The id of a workspace is called `task_id`. Users and ids are few and similar, so that they collide,
and all users upload the same few texts.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.ids import safe_id
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_job_context
from tests.support.materials import (
    BREAD,
    BRIDGE,
    COMET,
    MAST,
    call_extract,
    extract_error,
    extract_result,
)
from tests.support.workspaces import erase_workspace, read_write_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.messages import CallAnswer

pytestmark = pytest.mark.anyio

LONG: Final = "a" * 199
NAMES: Final = (
    None,
    "default",
    "notes",
    "Notes",
    " notes\n",
    "notes ",
    "a/notes",
    "a-notes",
    "a.notes",
    "../notes",
    "..",
    ".",
    "/",
    "//",
    "__notes__",
    "users/b/rag_tasks/notes",
    "n\u043etes",  # with a Cyrillic o
    "note\u017f",  # with a long s
    "caf\u00e9",
    "cafe\u0301",
    "\u200bnotes",
    "notes\0",
    "\N{SAILBOAT}",
    "笔记",
    LONG,
    f"{LONG}b",
    safe_id(LONG),
    safe_id("a/notes"),
)
"""Task ids that look alike, or like paths that lead elsewhere."""
TEXTS: Final = (
    f"{MAST}\n\n{BREAD}",
    f"{BREAD}\n\n{COMET}",
    MAST,
    f"{BRIDGE}\n\n\n{MAST}\n\n{MAST}",
)
DOCUMENTS: Final = (*map(content_id, TEXTS), "0" * 32)
QUESTIONS: Final = ("What was struck by lightning?", "rye", "zyzzyva")
_ROUNDS: Final = itertools.count()

names = st.one_of(st.sampled_from(NAMES), st.text(min_size=1, max_size=30).filter(str.strip))
users = st.sampled_from(["a", "a.b", "a@b.example", "a-", "rag_tasks"])
steps = st.tuples(
    users,
    names,
    st.sampled_from(["upload", "upload", "upload in task", "document", "in task", "task", "erase"]),
    st.integers(0, len(DOCUMENTS) - 1),
    st.sampled_from(QUESTIONS),
)


class CountingEmbedder(WordEmbedder):
    """Counts how often each passage is embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded: Counter[str] = Counter()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        if purpose is Purpose.DOCUMENT:
            self.embedded.update(texts)
        return await super().embed(texts, purpose)


@dataclass
class WorkspaceModel:
    """A model of all workspaces: what is uploaded, and what must be stored.

    Attributes:
        app: The app under test.
        tasks: The texts of each workspace, by its user and its id.
        embedded: How often each passage must have been embedded.
    """

    app: App
    tasks: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    embedded: Counter[str] = field(default_factory=Counter)

    async def ask(self, user: str, name: str | None, query: str, **arguments: Any) -> CallAnswer:
        task_id = {"task_id": name} if name is not None else {}
        return await call_extract(
            self.app, query, Caller.of(user), top_k=20, **task_id, **arguments
        )

    async def take_step(
        self, user: str, name: str | None, action: str, number: int, query: str
    ) -> None:
        """Take one step in a workspace, and check the answer."""
        task = safe_id(name or "default")
        expected_texts = self.tasks[user, task]
        text = TEXTS[number % len(TEXTS)]
        scope = {"scope": "task"} if action.endswith("task") else {}
        match action:
            case "upload" | "upload in task":
                is_known = text in expected_texts
                self.embedded.update(split_passages(text) - split_passages(*expected_texts))
                expected_texts.add(text)
                answer = await self.ask(user, name, query, materials=text, **scope)
                assert answer.result
                assert answer.result["known"] == is_known
                assert content_id(text) == answer.result["document"]
                assert_answers(answer, task, expected_texts if scope else {text})
            case "document" | "in task":
                document = DOCUMENTS[number]
                answer = await self.ask(user, name, query, document=document, **scope)
                if matching_texts := {
                    candidate for candidate in expected_texts if content_id(candidate) == document
                }:
                    assert_answers(answer, task, expected_texts if scope else matching_texts)
                else:
                    # The error does not tell whether another workspace has the document.
                    unknown = await self.ask(user, name, query, document=DOCUMENTS[-1], **scope)
                    assert get_error_code(answer) == "NOT_FOUND"
                    assert answer.error == unknown.error
            case "task":
                answer = await self.ask(user, name, query, scope="task")
                if expected_texts:
                    assert_answers(answer, task, expected_texts)
                else:
                    assert get_error_code(answer) == "NOT_FOUND"
            case _:
                if expected_texts:
                    await erase_workspace(make_job_context(self.app), task, user)
                    expected_texts.clear()


def split_passages(*texts: str) -> Counter[str]:
    """Return each distinct passage of the texts once.

    The result is a counter, so that embeddings can be added up.
    """
    return Counter({passage.strip() for text in texts for passage in text.split("\n\n")})


def get_error_code(answer: CallAnswer) -> str | None:
    return answer.error.code if answer.error else None


def assert_answers(answer: CallAnswer, task: str, texts: set[str]) -> None:
    """Assert that an answer has exactly the passages of these texts, at their positions."""
    assert answer.result, answer.error
    assert task == answer.result["task_id"]
    assert split_passages(*texts) == Counter(answer.result["contexts"])
    assert len(split_passages(*texts)) == answer.result["considered"]
    by_id = {content_id(text): text for text in texts}
    assert answer.result["contexts"] == [
        by_id[passage["document"]][passage["start"] : passage["end"]]
        for passage in answer.result["passages"]
    ]


@pytest.fixture
async def counting_app(settings: Settings) -> AsyncIterator[App]:
    app = App(settings, embedder=CountingEmbedder())
    yield app
    await app.aclose()


@hypothesis_settings(
    deadline=None,
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=st.lists(steps, min_size=6, max_size=14))
@example([("a", name, "upload", number % 3, "rye") for number, name in enumerate(NAMES)])
async def test_each_workspace_answers_from_its_own_texts(
    project: str, script: list[tuple[str, str | None, str, int, str]]
) -> None:
    embedder = CountingEmbedder()
    settings = Settings(google_cloud_project=f"{project}-{next(_ROUNDS)}")
    model = WorkspaceModel(App(settings, embedder=embedder))
    for step in script:
        await model.take_step(*step)
    assert model.embedded == embedder.embedded
    await assert_stored(model)
    await model.app.aclose()


UPLOAD_ID: Final = re.compile(r"\.[0-9a-f]{16}")
"""The id of an upload in a path."""


async def assert_stored(model: WorkspaceModel) -> None:
    """Assert that exactly the uploaded texts are stored, below their user and workspace."""
    contents = await read_write_times(make_job_context(model.app))
    tasks = {f"users/{user}/rag_tasks/{task}": texts for (user, task), texts in model.tasks.items()}
    expected = {"meta/embedding"} if model.embedded else set()
    for task, texts in tasks.items():
        expected |= {task} if texts else set()
        expected |= {f"{task}/documents/{content_id(text)}" for text in texts}
        expected |= {
            f"{task}/parts/{content_id(text)}{suffix}" for text in texts for suffix in ("", ".0")
        }
        expected |= {f"{task}/passages/{content_id(passage)}" for passage in split_passages(*texts)}
    assert {UPLOAD_ID.sub("", path) for path in contents} == expected


async def test_different_task_ids_are_different_workspaces(counting_app: App) -> None:
    texts_by_task: dict[str, list[tuple[str, str]]] = {}
    for number, name in enumerate(filter(None, NAMES)):
        text = f"Only {number} is here."
        result = await extract_result(counting_app, "Who is here?", materials=text, task_id=name)
        texts_by_task.setdefault(result["task_id"], []).append((name, text))
    # Two of the names are the ids that other names are stored under.
    assert len({name.strip() for name in filter(None, NAMES)}) - 2 == len(texts_by_task)
    for task, pairs in texts_by_task.items():
        result = await extract_result(counting_app, "Who?", scope="task", task_id=task, top_k=20)
        assert {text for _, text in pairs} == set(result["contexts"])
        assert {safe_id(name) for name, _ in pairs} == {task}


@pytest.mark.parametrize("name", ["", " ", "\n\t", "\u00a0", "x" * 201, "\ud800"])
async def test_a_blank_or_long_task_id_is_refused(counting_app: App, name: str) -> None:
    error = await extract_error(counting_app, "Who?", materials=MAST, task_id=name)
    assert error.code == "VALIDATION_ERROR"
    assert await read_write_times(make_job_context(counting_app)) == {}


@pytest.mark.parametrize("document", ["", "0" * 31, "../../b/0", f"{'0' * 31}/", f"{'0' * 32}\n"])
async def test_a_malformed_document_id_is_invalid(counting_app: App, document: str) -> None:
    error = await extract_error(counting_app, "Who?", document=document)
    assert error.code == "VALIDATION_ERROR"


async def test_equal_texts_are_stored_for_each_workspace(counting_app: App) -> None:
    callers = [Caller.of(user) for user in ("ann", "ann.b")]
    for caller, task in itertools.product(callers, ("notes", "Notes")):
        result = await extract_result(counting_app, "rye", caller, materials=TEXTS[0], task_id=task)
        assert not result["known"]
    embedder = counting_app.embedder
    assert isinstance(embedder, CountingEmbedder)
    assert embedder.embedded == {MAST: 4, BREAD: 4}
    ctx = make_job_context(counting_app)
    before = await read_write_times(ctx, "users/")
    await erase_workspace(ctx, "notes", "ann")
    erased = "users/ann/rag_tasks/notes"
    assert {path: at for path, at in before.items() if not f"{path}/".startswith(f"{erased}/")} == (
        await read_write_times(ctx, "users/")
    )
    result = await extract_result(counting_app, "rye", callers[0], scope="task", task_id="Notes")
    assert set(result["contexts"]) == {MAST, BREAD}
