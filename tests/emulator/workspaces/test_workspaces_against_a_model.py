"""Each workspace answers from its own texts only, as a model in memory predicts.

A workspace contains the texts that a user uploads for one purpose. Its id is called `task_id`.
Users and ids are few and similar here, so that they collide, and all users upload the same texts.
"""

import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shared.core.caller import Caller
from shared.core.ids import safe_id
from shared.runtime.context import App
from shared.runtime.messages import CallAnswer
from shared.workspaces.model import content_id
from tests.support.apps import Apps
from tests.support.fakes.recording_embedder import RecordingEmbedder
from tests.support.jobs import make_job_context
from tests.support.materials import BREAD, BRIDGE, COMET, MAST, call_extract, quote_all
from tests.support.workspaces import erase_workspace, read_write_times

LONG_ID: Final = "a" * 199
"""An id that is one character shorter than the limit."""
TASK_IDS: Final = (
    *(None, "default", "notes", "Notes", " notes\n", "notes ", "a/notes", "a-notes", "a.notes"),
    *("../notes", "..", ".", "/", "//", "__notes__", "users/b/rag_tasks/notes"),
    "n\u043etes",  # with a Cyrillic o
    "note\u017f",  # with a long s
    *("caf\u00e9", "cafe\u0301"),  # the accent is a character of its own
    "\u200bnotes",  # begins with an invisible space
    *("notes\0", "\N{SAILBOAT}", "笔记"),
    *(LONG_ID, f"{LONG_ID}b", safe_id(LONG_ID), safe_id("a/notes")),
)
"""Ids that look alike, or like paths that lead elsewhere. None uses the workspace `default`."""
TEXTS: Final = (
    f"{MAST}\n\n{BREAD}",
    f"{BREAD}\n\n{COMET}",
    MAST,
    f"{BRIDGE}\n\n\n{MAST}\n\n{MAST}",
)
DOCUMENTS: Final = (*map(content_id, TEXTS), "0" * 32)
"""The ids of the texts, and the id of a document that nobody uploads."""
QUESTIONS: Final = ("What was struck by lightning?", "rye", "zyzzyva")
UPLOAD_ID: Final = re.compile(r"\.[0-9a-f]{16}")
"""The id of an upload in a path."""
_ROUNDS: Final = itertools.count()
"""Numbers for the databases of the examples."""


class Step(NamedTuple):
    """A call by a user, or the erasure of a workspace.

    Attributes:
        task_id: The id of the workspace; None leaves the argument out.
        action: What happens. Actions that end with "task" search all texts of the workspace.
        number: The index of a text or a document.
    """

    user: str
    task_id: str | None
    action: str
    number: int
    question: str


task_ids = st.one_of(st.sampled_from(TASK_IDS), st.text(min_size=1, max_size=30).filter(str.strip))
steps = st.builds(
    Step,
    user=st.sampled_from(["a", "a.b", "a@b.example", "a-", "rag_tasks"]),
    task_id=task_ids,
    action=st.sampled_from(
        ["upload", "upload", "upload in task", "document", "document in task", "task", "erase"]
    ),
    number=st.integers(0, len(DOCUMENTS) - 1),
    question=st.sampled_from(QUESTIONS),
)


@dataclass
class WorkspaceModel:
    """A model of all workspaces, which predicts the answers of an app.

    Attributes:
        app: The app under test.
        texts: The texts of each workspace, by its user and its id.
        embedded: How often each passage must have been embedded.
    """

    app: App
    texts: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    embedded: Counter[str] = field(default_factory=Counter)

    async def take_step(self, step: Step) -> None:
        texts = self.texts[step.user, safe_id(step.task_id or "default")]
        match step.action:
            case "upload" | "upload in task":
                await self._upload(step, texts)
            case "document" | "document in task":
                await self._ask_about_document(step, texts)
            case "task":
                answer = await self._ask(step)
                if texts:
                    assert_answers(answer, step, texts)
                else:
                    assert get_error_code(answer) == "NOT_FOUND"
            case _:
                if texts:
                    task_id = safe_id(step.task_id or "default")
                    await erase_workspace(make_job_context(self.app), task_id, step.user)
                    texts.clear()

    async def _upload(self, step: Step, texts: set[str]) -> None:
        text = TEXTS[step.number % len(TEXTS)]
        is_known = text in texts
        self.embedded.update(split_passages(text) - split_passages(*texts))
        texts.add(text)
        answer = await self._ask(step, materials=text)
        assert answer.result
        assert answer.result["known"] == is_known
        assert answer.result["document"] == content_id(text)
        assert_answers(answer, step, texts if step.action.endswith("task") else {text})

    async def _ask_about_document(self, step: Step, texts: set[str]) -> None:
        document = DOCUMENTS[step.number]
        answer = await self._ask(step, document=document)
        matching_texts = {text for text in texts if content_id(text) == document}
        if matching_texts:
            assert_answers(answer, step, texts if step.action.endswith("task") else matching_texts)
        else:
            # The error does not tell whether another workspace has the document.
            unknown = await self._ask(step, document=DOCUMENTS[-1])
            assert get_error_code(answer) == "NOT_FOUND"
            assert answer.error == unknown.error

    async def _ask(self, step: Step, **arguments: Any) -> CallAnswer:
        if step.task_id is not None:
            arguments["task_id"] = step.task_id
        if step.action.endswith("task"):
            arguments["scope"] = "task"
        caller = Caller.of(step.user)
        return await call_extract(self.app, step.question, caller, top_k=20, **arguments)


def split_passages(*texts: str) -> Counter[str]:
    """Return each distinct passage of the texts once.

    The result is a counter, so that embeddings can be added up.
    """
    return Counter({passage.strip() for text in texts for passage in text.split("\n\n")})


def get_error_code(answer: CallAnswer) -> str | None:
    return answer.error.code if answer.error else None


def assert_answers(answer: CallAnswer, step: Step, texts: set[str]) -> None:
    """Assert that an answer has exactly the passages of these texts, at their positions."""
    assert answer.result, answer.error
    assert answer.result["task_id"] == safe_id(step.task_id or "default")
    quotes = quote_all(answer.result, {content_id(text): text for text in texts})
    assert Counter(quotes) == split_passages(*texts)
    assert answer.result["considered"] == len(quotes)
    assert answer.result["contexts"] == quotes[: len(answer.result["contexts"])]


@pytest.fixture
def embedder() -> RecordingEmbedder:
    """The embedder of `app`."""
    return RecordingEmbedder()


@pytest.mark.requirement(
    "001-B1", "001-B3", "001-D1", "001-D6", "001-D7", "001-D8", "001-D12", "001-P3", "001-X4"
)
@hypothesis_settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=st.lists(steps, min_size=6, max_size=14))
@example(
    [Step("a", task_id, "upload", number % 3, "rye") for number, task_id in enumerate(TASK_IDS)]
)
async def test_each_workspace_answers_from_its_own_texts(
    apps: Apps, project: str, script: list[Step]
) -> None:
    embedder = RecordingEmbedder()
    app = apps(embedder=embedder, project=f"{project}-{next(_ROUNDS)}")
    model = WorkspaceModel(app)
    for step in script:
        await model.take_step(step)
    assert model.embedded == Counter(embedder.passages)
    await assert_stored(model)


async def assert_stored(model: WorkspaceModel) -> None:
    """Assert that exactly the uploaded texts are stored, below their user and workspace."""
    stored_paths = await read_write_times(make_job_context(model.app))
    expected = {"meta/embedding"} if model.embedded else set()
    for (user, task_id), texts in model.texts.items():
        workspace = f"users/{user}/rag_tasks/{task_id}"
        if texts:
            expected.add(workspace)
        for document in map(content_id, texts):
            expected.add(f"{workspace}/documents/{document}")
            expected.add(f"{workspace}/parts/{document}.0")
    assert {UPLOAD_ID.sub("", path) for path in stored_paths} == expected


def test_different_task_ids_are_different_workspaces() -> None:
    """Two of the ids are those under which Carrel stores two others."""
    ids = {task_id.strip() for task_id in TASK_IDS if task_id is not None}
    stored_ids = {safe_id(task_id) for task_id in ids}
    assert len(stored_ids) == len(ids) - 2
    assert set(map(safe_id, stored_ids)) == stored_ids
