"""Random histories of a knowledge base in which people save, edit, forget and restore.

`KnowledgeHistory` makes random calls and runs jobs, and kills some of them. It records in a
`KnowledgeModel` what the knowledge base must contain. To add an operation, add a method to the list
in `KnowledgeHistory.list_changes`. The method calls a tool through `_call`, and changes the model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from google.cloud.firestore_v1.vector import Vector

from functions.jobs.purge.job import purge
from functions.jobs.purge.sweep import Sweep
from functions.jobs.repair.job import repair
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.forgotten_chunks import RESTORABLE_CHUNKS, RESTORABLE_SOURCES
from shared.knowledge.source import Section
from shared.runtime.job import Report
from shared.runtime.messages import CallAnswer
from shared.text.splitting import CHUNK_LIMITS
from shared.writer.chunked_source import ChunkedSource
from shared.writer.note import CATEGORY, NoteContent
from tests.support.fakes.embedder import DIMENSION, WordEmbedder
from tests.support.index_history import WORDS, History
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.killable_app import KillableApp
from tests.support.knowledge import embed_all, set_fields
from tests.support.knowledge_model import KnowledgeModel
from tests.support.notes import EDITOR, OWNER
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_result

OWNER_TOOLS: Final = ("forget", "edit_source")
"""The tools that the owner calls, since an editor may only forget and edit notes of their own."""
TODAY: Final = datetime(2025, 6, 1, 12, tzinfo=UTC)
"""The day of all calls. Notes have this date; what is ingested has earlier ones."""
CLUSTER: Final = "c1"
"""The id of the only cluster."""
CENTROID: Final = Vector([1.0] + [0.0] * (DIMENSION - 1))
"""The vector of the cluster, which may be any unit vector."""
MAX_COMMITS: Final = 3
"""Calls and runs are killed after fewer commits than this: few of them make more commits."""
KILL_PROBABILITY: Final = 0.3
SAMPLE_SIZE: Final = 4
"""The number of random passages to check after each change. `check_settled` checks all of them."""


class KnowledgeHistory(History):
    """Random changes to a knowledge base by ingest, tools and jobs, some of which are killed.

    Attributes:
        app: The app that runs the tools and jobs.
        model: What the knowledge base must contain.
    """

    def __init__(self, app: KillableApp, seed: int) -> None:
        """Change the knowledge base of this app."""
        super().__init__(app.context(Caller.of("reader"), Meter()), seed)
        self.app = app
        self.model = KnowledgeModel()
        self._number = 0

    def list_changes(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the possible changes."""
        notes = [self.save_note, self.change_note, self.bring_back_revision, self.change_at_once]
        forgets = [self.forget_chunk, self.forget_source, self.forget_and_change]
        restores = [self.restore_source, self.restore_chunk, self.restore_source]
        forgets += [self.edit_source, self.edit_source, self.erase]
        jobs = [self.embed, self.kill_index, self.fill_cluster, self.purge]
        return [*super().list_changes(), *notes, *forgets, *restores, *jobs]

    async def save(self, sources: Sequence[ChunkedSource]) -> None:
        """Ingest sources, perhaps in a run that is killed and in the next one."""
        if self._should_kill():
            await self.app.survives(self.generator.randrange(MAX_COMMITS), super().save(sources))
        await super().save(sources)
        for source in sources:
            self.model.put(source)

    async def save_note(self) -> None:
        """Save a note of one or several passages."""
        content = self._make_content()
        answer = await self._call(
            "save_note", title=content.title, text=content.text, tags=content.tags, again=True
        )
        assert answer.result, answer.error
        source_id = answer.result["source_id"]
        self.model.revisions[source_id] = [content]
        self._put_note(source_id, answer.result)

    async def change_note(self) -> None:
        """Change a note."""
        for note in self._draw_sample(self.model.notes):
            content = self._make_content(note)
            answer = await self._call("save_note", **self._make_change(note, content))
            self._put_revision(note, answer, content)

    async def bring_back_revision(self) -> None:
        """Bring back a former revision of a note."""
        for note in self._draw_sample(self.model.notes):
            revisions = self.model.revisions[note]
            number = self.generator.randint(1, len(revisions))
            arguments = {"source_id": note, "revision": len(revisions)}
            answer = await self._call("save_note", **arguments, restore_revision=number)
            if answer.result and answer.result["duplicate"]:
                assert revisions[number - 1] == revisions[-1]
            elif number == len(revisions):
                assert answer.error
                assert answer.error.code == "NOT_FOUND"
            else:
                self._put_revision(note, answer, revisions[number - 1])

    async def change_at_once(self) -> None:
        """Change a note twice at the same time. One call succeeds, and the other gets CONFLICT."""
        for note in self._draw_sample(self.model.notes):
            contents = [self._make_content(note), self._make_content(note)]
            answers = await asyncio.gather(
                *(
                    self._send("save_note", **self._make_change(note, content))
                    for content in contents
                )
            )
            stored = [answer for answer in answers if answer.result]
            assert len(stored) == 1
            assert {answer.error.code for answer in answers if answer.error} == {"CONFLICT"}
            self._put_revision(note, stored[0], contents[answers.index(stored[0])])

    async def forget_and_change(self) -> None:
        """Forget a note and change it at the same time. The change succeeds or is refused."""
        for note in self._draw_sample(self.model.notes):
            content = self._make_content(note)
            changed, forgotten = await asyncio.gather(
                self._send("save_note", **self._make_change(note, content)),
                self._send("forget", source_id=note),
            )
            assert forgotten.result, forgotten.error
            if changed.result:
                self._put_revision(note, changed, content)
            else:
                assert changed.error
                assert changed.error.code in {"CONFLICT", "NOT_FOUND"}
            self.model.forget_source(note)

    async def forget_chunk(self) -> None:
        """Forget a passage."""
        for source_id in self._draw_sample(self.model.sources):
            [chunk_id] = self._draw_sample(self.model.sources[source_id])
            answer = await self._call("forget", chunk_id=chunk_id)
            assert answer.result, answer.error
            self.model.forget_chunk(source_id, chunk_id)

    async def forget_source(self) -> None:
        """Forget a source."""
        for source_id in self._draw_sample(self.model.sources):
            answer = await self._call("forget", source_id=source_id)
            assert answer.result, answer.error
            self.model.forget_source(source_id)

    async def restore_source(self) -> None:
        """Restore a source."""
        for source_id in self._draw_sample(self.model.forgotten_sources):
            answer = await self._call("forget", source_id=source_id, forgotten=False)
            assert answer.result, answer.error
            self.model.restore_source(source_id)

    async def restore_chunk(self) -> None:
        """Restore a passage, which cannot come back without its source."""
        forgotten = self.model.forgotten_chunks
        for source_id in self._draw_sample(name for name, texts in forgotten.items() if texts):
            [chunk_id] = self._draw_sample(forgotten[source_id])
            answer = await self._call("forget", chunk_id=chunk_id, forgotten=False)
            if source_id in self.model.sources or chunk_id in self.model.erased:
                assert answer.result, answer.error
                self.model.restore_chunk(source_id, chunk_id)
            else:
                assert answer.error
                assert answer.error.code == "CONFLICT"

    async def edit_source(self) -> None:
        """Give a source another title."""
        names = [name for name in self.model.sources if name not in self.model.revisions]
        for source_id in self._draw_sample(names):
            source = await call_result(self.app, "get_source", source_id=source_id)
            title = f"Edited {self.generator.randrange(3)}"
            edit = {"source_id": source_id, "revision": source["revision"], "title": title}
            answer = await self._call("edit_source", **edit)
            assert answer.result, answer.error
            self.model.titles[source_id] = title

    async def purge(self) -> None:
        """Run the job `purge`, perhaps in a run that is killed. It has nothing to delete."""
        commits = self.generator.randrange(1, 10)
        await self.app.survives(commits, purge(self.ctx, make_ample_budget()))

    async def erase(self) -> None:
        """Delete for good what is forgotten, as `purge` does after thirty days."""
        if self._should_kill():
            await self.app.survives(self.generator.randrange(MAX_COMMITS), self._erase())
        await self._erase()
        self.model.erase()

    async def _erase(self) -> None:
        later = replace(self.ctx, clock=lambda: TODAY + RESTORABLE_SOURCES.duration)
        report = Report()
        for sweep in map(Sweep, (RESTORABLE_CHUNKS, RESTORABLE_SOURCES)):
            await sweep.run(later, make_ample_budget(), report)
        assert report.failures == []

    async def embed(self) -> None:
        """Embed what waits, perhaps in a run that is killed."""
        if self._should_kill():
            await self.app.survives(self.generator.randrange(MAX_COMMITS), embed_all(self.ctx))
        else:
            await embed_all(self.ctx)

    async def kill_index(self) -> None:
        """Kill a run of the index job, during which nothing is ingested.

        The kill would also end that ingest, perhaps after its commit.
        """
        self.indexing.race = None
        await self.app.survives(self.generator.randrange(MAX_COMMITS), self.index())

    async def fill_cluster(self) -> None:
        """Put a passage into the cluster, as the job `cluster` does."""
        await set_fields(self.ctx, f"clusters/{CLUSTER}", {"name": "All", "centroid": CENTROID})
        for chunk_id in self._draw_sample(self.model.chunks):
            fields = {"cluster_id": [CLUSTER], "pending": {"index": TODAY}}
            await set_fields(self.ctx, f"chunks/{chunk_id}", fields)
            self.model.clustered.add(chunk_id)

    async def settle(self) -> None:
        """Run the jobs to their end, without a change in between."""
        self.indexing.race = None
        await embed_all(self.ctx)
        await self.index()

    async def check(self) -> None:
        """Compare what tools show with the model, while jobs may still have work to do."""
        await self._check_lists()
        await self._check_chunks(self._draw_sample(self.model.chunks, SAMPLE_SIZE))
        await self._check_absent(self._draw_sample(self._list_absent(), SAMPLE_SIZE))

    async def check_settled(self) -> None:
        """Compare everything with the model after the jobs have run."""
        await self._check_lists()
        await self._check_chunks(sorted(self.model.chunks))
        await self._check_absent(self._list_absent())
        for chunk_id, text in self.model.chunks.items():
            assert await self._search_hits(text, "lexical") >= {chunk_id}
            assert await self._search_hits(text, "semantic") >= {chunk_id}
        assert await self._load_cluster_members() == self.model.clustered & self.model.chunks.keys()
        stats = await call_result(self.app, "get_stats")
        assert stats["chunks"] == len(self.model.chunks)
        assert stats["sources"] == len(self.model.sources)
        await assert_postings_are_exact(self.ctx)
        # Repair may delete empty postings, and replace a spelling that no passage has any more.
        await repair(self.ctx, make_ample_budget())
        await assert_postings_are_exact(self.ctx)
        assert await repair(self.ctx, make_ample_budget()) == Report()

    async def _check_lists(self) -> None:
        """Compare all lists of sources, passages and members with the model."""
        summaries = (await call_result(self.app, "list_sources", limit=50))["sources"]
        titles = {summary["source_id"]: summary["title"] for summary in summaries}
        assert titles.keys() == self.model.sources.keys()
        edited_titles = {
            source_id: title
            for source_id, title in self.model.titles.items()
            if source_id in titles
        }
        assert titles.items() >= edited_titles.items()
        for source_id, texts in self.model.sources.items():
            arguments = {"source_id": source_id, "limit": 50, "max_tokens": 12_000}
            source = await call_result(self.app, "get_source", **arguments)
            assert {chunk["chunk_id"]: chunk["text"] for chunk in source["chunks"]} == texts
            assert source["chunk_count"] == len(texts)
        recent = await call_result(self.app, "get_recent", limit=50)
        chunks_of_notes = {name for note in self.model.notes for name in self.model.sources[note]}
        assert {chunk["chunk_id"] for chunk in recent["chunks"]} == chunks_of_notes
        last_year = await call_result(self.app, "get_recent", period="last_year", limit=50)
        assert {chunk["chunk_id"] for chunk in last_year["chunks"]} <= self.model.chunks.keys()
        assert await self._load_cluster_members() <= self.model.chunks.keys()
        assert (await read_chunks(self.ctx)).keys() == self.model.chunks.keys()

    async def _check_chunks(self, chunk_ids: Sequence[str]) -> None:
        """Compare these passages with the model. A note's passage is found without the jobs."""
        for chunk_id in chunk_ids:
            chunk = await call_result(self.app, "get_chunk", chunk_id=chunk_id)
            assert chunk["content"] == self.model.texts[chunk_id]
            related = {hit["chunk_id"] for hit in chunk["related_chunks"]}
            assert related <= self.model.chunks.keys() - {chunk_id}
            hits = await self._search_hits(chunk["content"], "hybrid")
            assert hits <= self.model.chunks.keys()
            if chunk["source"] == CATEGORY:
                assert chunk_id in hits

    async def _check_absent(self, chunk_ids: Sequence[str]) -> None:
        """Check that nobody can read or find these passages and the forgotten sources."""
        for chunk_id in chunk_ids:
            answer = await call(self.app, "get_chunk", chunk_id=chunk_id)
            assert answer.error
            assert answer.error.code == "NOT_FOUND"
            for mode in ("lexical", "semantic"):
                hits = await self._search_hits(self.model.texts[chunk_id], mode)
                assert hits <= self.model.chunks.keys()
        for source_id in self.model.forgotten_sources:
            answer = await call(self.app, "get_source", source_id=source_id)
            assert answer.error
            assert answer.error.code == "NOT_FOUND"

    async def _search_hits(self, query: str, mode: str) -> set[str]:
        query = query[:2_000]
        answer = await call_result(self.app, "search_kb", query=query, mode=mode, limit=50)
        return {hit["chunk_id"] for hit in answer["results"]}

    async def _load_cluster_members(self) -> set[str]:
        if not await read_documents(self.ctx, "clusters"):
            return set()
        arguments = {"cluster_id": CLUSTER, "include_related": False, "member_limit": 50}
        members = (await call_result(self.app, "get_cluster", **arguments))["members"]
        return {member["chunk_id"] for member in members}

    async def _call(self, tool: str, **arguments: Any) -> CallAnswer:
        """Make a call. One that is killed is sent again, perhaps after the index job has run."""
        self._number += 1
        arguments["idempotency_key"] = f"key-{self._number}"
        if self._should_kill():
            commits = self.generator.randrange(MAX_COMMITS)
            if not await self.app.survives(commits, self._send(tool, **arguments)):
                await self.generator.choice([self.index, self._wait])()
        return await self._send(tool, **arguments)

    async def _send(self, tool: str, **arguments: Any) -> CallAnswer:
        return await call(self.app, tool, OWNER if tool in OWNER_TOOLS else EDITOR, **arguments)

    def _make_change(self, note: str, content: NoteContent) -> dict[str, Any]:
        """Return the arguments of a call that changes a note."""
        fields = {"title": content.title, "text": content.text, "tags": list(content.tags)}
        return fields | {"source_id": note, "revision": len(self.model.revisions[note])}

    def _put_revision(self, note: str, answer: CallAnswer, content: NoteContent) -> None:
        assert answer.result, answer.error
        self.model.revisions[note].append(content)
        self._put_note(note, answer.result)

    def _put_note(self, note: str, result: Mapping[str, Any]) -> None:
        chunked = self.model.revisions[note][-1].to_chunked_source(
            note, CHUNK_LIMITS["local"], TODAY
        )
        assert [chunk.chunk_id for chunk in chunked.chunks] == result["chunk_ids"]
        assert result["revision"] == len(self.model.revisions[note])
        self.model.put(chunked)

    def _make_content(self, note: str | None = None) -> NoteContent:
        """Return random content for a new note, or for a change of `note`.

        A change keeps the whole text, its first paragraph, or nothing of it.
        """
        paragraphs = self._make_paragraph(), self._make_paragraph(), self._make_paragraph()
        text = "\n\n".join(paragraphs[: self.generator.choice([1, 1, 3])])
        title = self.generator.choice(["Log", "Bread"])
        tags = tuple(self.generator.sample(["food", "sea", "a/b"], self.generator.randrange(3)))
        if note:
            former_text = self.model.revisions[note][-1].text
            first_paragraph = former_text.partition("\n\n")[0]
            text = self.generator.choice([former_text, text, f"{first_paragraph}\n\n{text}"])
        return NoteContent(title=title, text=f"{text}\n\n{self._make_mark()}", tags=tags)

    def _make_paragraph(self) -> str:
        return " ".join(
            [self._make_mark(), *self.generator.choices(WORDS, k=self.generator.randint(3, 150))]
        )

    def _make_section(self) -> Section:
        section = super()._make_section()
        return replace(section, text=f"{section.text} {self._make_mark()}")

    def _make_mark(self) -> str:
        """Return a word that no other text has."""
        self._number += 1
        return f"mark{self._number}"

    def _list_absent(self) -> list[str]:
        """Return the ids of passages that once existed."""
        chunks = self.model.chunks
        return [chunk_id for chunk_id in self.model.texts if chunk_id not in chunks]

    def _draw_sample(self, names: Iterable[str], limit: int = 1) -> list[str]:
        """Return random ids by their position, since the ids of notes differ from run to run."""
        ordered_names = list(names)
        return self.generator.sample(ordered_names, min(limit, len(ordered_names)))

    def _should_kill(self) -> bool:
        """Choose whether to kill the next call or run."""
        return self.generator.random() < KILL_PROBABILITY

    async def _wait(self) -> None:
        """Do nothing before a call is sent again."""


def make_app(settings: Settings) -> KillableApp:
    """Return the app for a history, whose clock always shows `TODAY`."""
    return KillableApp(settings, clock=lambda: TODAY, embedder=WordEmbedder())
