"""Random edits, ingests, job runs and restorations leave what a simple model expects."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from shared.core.caller import Caller, Role
from shared.knowledge import source_editing
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.source import Section, Source
from shared.knowledge.source_editing import SourceEditing
from tests.support.knowledge import chunk_source, index_all
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

SEED: Final = int(os.environ.get("KILL_SEED", "17"))
OWNER: Final = Caller.of("anna", role=Role.OWNER)
OPERATIONS: Final = 25
OWN_TAGS: Final = ("own", "both")
"""Tags of every third highlight, one of which an edit may give to the source, too."""


@dataclass
class Model:
    """What an owner sees, and what the origin says."""

    origin: dict[str, Any]
    edits: dict[str, Any] = field(default_factory=dict)
    revision: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        return self.origin | self.edits

    def make_source_of_origin(self) -> Source:
        """Return the source as its origin has it."""
        sections = tuple(
            Section(f"Bread number {number}.", tags=OWN_TAGS if number % 3 == 0 else ())
            for number in range(10)
        )
        return Source("long", sections=sections, **self.origin)


def draw_values(random: Random) -> dict[str, Any]:
    return {
        "title": f"Title {random.randrange(3)}",
        "author": random.choice(["Ann", "Ben", None]),
        "tags": tuple(random.sample(["a", "b", "c"], random.randrange(3))),
    }


class Driver:
    """Does the operations, on the base and on the model."""

    def __init__(self, app: App, ctx: Context, random: Random) -> None:
        self.model = Model(draw_values(random))
        self._app = app
        self._context = ctx
        self._random = random

    async def ingest(self) -> None:
        source = chunk_source(self.model.make_source_of_origin())
        await Ingestion(self._context.database).save([source], self._context.clock())

    async def ingest_changes(self) -> None:
        self.model.origin = draw_values(self._random)
        await self.ingest()

    async def edit(self) -> None:
        names = self._random.sample(EDITABLE, self._random.randint(1, 3))
        values = {name: draw_values(self._random)[name] for name in names}
        if self._random.random() < 0.5 and "tags" in values:
            values["tags"] += ("both",)
        given = {
            name: list(value) if name == "tags" else value or "" for name, value in values.items()
        }
        changed = {
            name: value for name, value in values.items() if value != self.model.fields[name]
        }
        await self._call(given)
        self.model.edits |= changed

    async def reset(self) -> None:
        names = self._random.sample(EDITABLE, self._random.randint(1, 3))
        await self._call({"reset": names})
        for name in names:
            self.model.edits.pop(name, None)

    async def _call(self, arguments: dict[str, Any]) -> None:
        target = {"source_id": "long", "revision": self.model.revision}
        out = await call_result(self._app, "edit_source", OWNER, **target, **arguments)
        self.model.revision = out["revision"]

    async def index(self) -> None:
        await index_all(self._context)

    async def begin_rewriting(self) -> None:
        """Stop the job after its first commit."""
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
        """Compare the base with the model."""
        await self.index()
        source = (await read_documents(self._context, "sources"))["long"]
        fields = self.model.fields
        expected = fields | {"tags": list(fields["tags"])}
        assert {name: source[name] for name in EDITABLE} == expected
        assert set(source.get("origin_values", {})) == set(self.model.edits)
        assert "rewriting" not in source
        stored = (await read_chunks(self._context)).values()
        assert len(stored) == 10
        for chunk in stored:
            number = int(chunk["content"].split()[-1].rstrip("."))
            own = OWN_TAGS if number % 3 == 0 else ()
            tags = list(dict.fromkeys((*fields["tags"], *own)))
            assert {name: chunk[name] for name in EDITABLE} == expected | {"tags": tags}
        facets = {facet for facet in source["facets"] if facet.startswith("tag:")}
        assert facets == {f"tag:{tag}" for tag in (*fields["tags"], *OWN_TAGS)}
        result = await Ingestion(self._context.database).save(
            [chunk_source(self.model.make_source_of_origin())], self._context.clock()
        )
        assert "updated" not in result


@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
async def test_edits_agree_with_a_model(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(source_editing, "MAX_WRITES", 4)
    random = Random(seed)  # noqa: S311 - not a secret
    driver = Driver(app, ctx, random)
    await driver.ingest()
    operations = [
        *(driver.edit, driver.edit, driver.reset, driver.ingest, driver.ingest_changes),
        *(driver.index, driver.begin_rewriting, driver.restore_passage, driver.restore_source),
    ]
    done = []
    for number in range(OPERATIONS):
        operation = random.choice(operations)
        done.append(operation.__name__)
        await operation()
        if number % 5 == 4:
            try:
                await driver.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {done}") from error
