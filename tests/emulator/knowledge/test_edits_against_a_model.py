"""Random edits, ingests, job runs and restorations of a source leave what a model expects.

The model knows two rules. A field that an owner has edited has the edit's value, any other field
the value of the source's origin, such as a file. A passage has the tags of its source and its own.
"""

import os
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pytest

from shared.core.caller import Caller, Role
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.writer import source_editing
from shared.writer.ingestion import Ingestion
from shared.writer.source_editing import SourceEditing
from tests.support.knowledge import chunk_source, index_all
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

SEED: Final = int(os.environ.get("KILL_SEED", "17"))
"""The seed of the first test; a failure names the seed and the operations."""
OWNER: Final = Caller.of("anna", role=Role.OWNER)
OPERATIONS: Final = 25
"""The number of random operations in a test."""
PASSAGE_TAGS: Final = ("own", "both")
"""The tags of every third passage. An edit may give `both` to the source, too."""
PASSAGES: Final = 10
"""The number of passages of the source."""


@dataclass
class Model:
    """The values of the editable fields.

    Attributes:
        origin: The values in the source's origin.
        edits: The values that an owner has set.
        revision: The number of edits.
    """

    origin: dict[str, Any]
    edits: dict[str, Any] = field(default_factory=dict)
    revision: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        return self.origin | self.edits

    def make_source(self) -> Source:
        """Return the source as its origin has it."""
        sections = tuple(
            Section(f"Bread number {number}.", tags=get_passage_tags(number))
            for number in range(PASSAGES)
        )
        return Source("long", sections=sections, **self.origin)


def get_passage_tags(number: int) -> tuple[str, ...]:
    """Return the tags that a passage has, whatever its source has."""
    return PASSAGE_TAGS if number % 3 == 0 else ()


def draw_values(random: Random) -> dict[str, Any]:
    return {
        "title": f"Title {random.randrange(3)}",
        "author": random.choice(["Ann", "Ben", None]),
        "tags": tuple(random.sample(["a", "b", "c"], random.randrange(3))),
    }


class Driver:
    """Does each operation on the knowledge base and on the model."""

    def __init__(self, app: App, ctx: Context, random: Random) -> None:
        self.model = Model(draw_values(random))
        self._app = app
        self._context = ctx
        self._random = random

    async def ingest(self) -> None:
        """Ingest the source from its origin, which is unchanged."""
        source = chunk_source(self.model.make_source())
        await Ingestion(self._context.database).save([source], self._context.clock())

    async def ingest_changes(self) -> None:
        self.model.origin = draw_values(self._random)
        await self.ingest()

    async def edit(self) -> None:
        """Set some fields. A field that has the value already does not count as edited."""
        names = self._random.sample(EDITABLE, self._random.randint(1, 3))
        values = {name: draw_values(self._random)[name] for name in names}
        if self._random.random() < 0.5 and "tags" in values:
            values["tags"] += ("both",)
        arguments = {
            name: list(value) if name == "tags" else value or "" for name, value in values.items()
        }
        await self._call_edit_source(arguments)
        before = self.model.fields
        self.model.edits |= {name: value for name, value in values.items() if value != before[name]}

    async def reset(self) -> None:
        """Give some fields the values of the origin again."""
        names = self._random.sample(EDITABLE, self._random.randint(1, 3))
        await self._call_edit_source({"reset": names})
        for name in names:
            self.model.edits.pop(name, None)

    async def _call_edit_source(self, arguments: dict[str, Any]) -> None:
        target = {"source_id": "long", "revision": self.model.revision}
        out = await call_result(self._app, "edit_source", OWNER, **target, **arguments)
        self.model.revision = out["revision"]

    async def index(self) -> None:
        await index_all(self._context)

    async def begin_rewriting(self) -> None:
        editing = SourceEditing(self._context.database)
        await anext(editing.rewrite_chunks("long", self._context.clock()), None)

    async def restore_passage(self) -> None:
        """Forget a passage, do something else, and restore the passage."""
        target = {"chunk_id": self._random.choice(sorted(await read_chunks(self._context)))}
        await call_result(self._app, "forget", OWNER, **target)
        await self._random.choice([self.edit, self.reset, self.index])()
        await call_result(self._app, "forget", OWNER, **target, forgotten=False)

    async def restore_source(self) -> None:
        await call_result(self._app, "forget", OWNER, source_id="long")
        await self.index()
        await call_result(self._app, "forget", OWNER, source_id="long", forgotten=False)

    async def check(self) -> None:
        """Assert that the base agrees with the model, and that nothing is left to ingest."""
        await self.index()

        source = (await read_documents(self._context, "sources"))["long"]
        fields = self.model.fields
        expected = fields | {"tags": list(fields["tags"])}
        assert {name: source[name] for name in EDITABLE} == expected
        assert set(source.get("origin_values", {})) == set(self.model.edits)
        assert "rewriting" not in source
        facets = {facet for facet in source["facets"] if facet.startswith("tag:")}
        assert facets == {f"tag:{tag}" for tag in (*fields["tags"], *PASSAGE_TAGS)}

        passages = (await read_chunks(self._context)).values()
        assert len(passages) == PASSAGES
        for passage in passages:
            number = int(passage["content"].removeprefix("Bread number ").removesuffix("."))
            tags = list(dict.fromkeys((*fields["tags"], *get_passage_tags(number))))
            assert {name: passage[name] for name in EDITABLE} == expected | {"tags": tags}

        counts = await Ingestion(self._context.database).save(
            [chunk_source(self.model.make_source())], self._context.clock()
        )
        assert "updated" not in counts


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
async def test_random_operations_agree_with_the_model(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(source_editing, "MAX_CHANGES", 4)  # so that edits take several commits
    random = Random(seed)  # noqa: S311 - not a secret
    driver = Driver(app, ctx, random)
    await driver.ingest()
    operations = [
        *(driver.edit, driver.edit, driver.reset, driver.ingest, driver.ingest_changes),
        *(driver.index, driver.begin_rewriting, driver.restore_passage, driver.restore_source),
    ]
    names = []
    for number in range(OPERATIONS):
        operation = random.choice(operations)
        names.append(operation.__name__)
        await operation()
        if number % 5 == 4:
            try:
                await driver.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {names}") from error
