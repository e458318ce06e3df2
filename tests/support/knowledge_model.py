"""A model of a knowledge base: what it must contain after runs of ingest and calls of tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.writer.chunked_source import ChunkedSource
from shared.writer.note import NoteContent

Texts = Mapping[str, str]
"""The texts of chunks by id."""


@dataclass
class KnowledgeModel:
    """What the knowledge base must contain.

    Attributes:
        sources: The texts of the chunks of each source, by source id.
        forgotten_sources: The same for sources that were forgotten as a whole.
        forgotten_chunks: The same for chunks that were forgotten one by one.
        erased: The ids of forgotten sources and chunks that were deleted for good.
        titles: The titles that an owner gave to sources.
        revisions: All contents of each note, the first revision first, by source id.
        clustered: The ids of chunks in the cluster, forgotten ones included.
        texts: The texts of all chunks that ever were, by id.
    """

    sources: dict[str, Texts] = field(default_factory=dict)
    forgotten_sources: dict[str, Texts] = field(default_factory=dict)
    forgotten_chunks: dict[str, dict[str, str]] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    titles: dict[str, str] = field(default_factory=dict)
    revisions: dict[str, list[NoteContent]] = field(default_factory=dict)
    clustered: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def chunks(self) -> dict[str, str]:
        """The texts of all chunks, by id."""
        return {name: text for texts in self.sources.values() for name, text in texts.items()}

    @property
    def notes(self) -> list[str]:
        """The ids of the notes."""
        return [source_id for source_id in self.sources if source_id in self.revisions]

    def put(self, source: ChunkedSource) -> None:
        """Store a source, except what was forgotten of it."""
        source_id = source.source.source_id
        if source_id in self.forgotten_sources:
            return
        forgotten = self.forgotten_chunks.get(source_id, {})
        texts = {
            chunk.chunk_id: chunk.content
            for chunk in source.chunks
            if chunk.chunk_id not in forgotten
        }
        self.clustered -= self.sources.pop(source_id, {}).keys() - texts.keys()
        self.texts |= texts
        if texts:
            self.sources[source_id] = texts
        else:
            self.titles.pop(source_id, None)

    def forget_chunk(self, source_id: str, chunk_id: str) -> None:
        """Forget a chunk, or its source if it is the last one or that of a note."""
        texts = dict(self.sources[source_id])
        if len(texts) == 1 or source_id in self.revisions:
            self.forget_source(source_id)
            return
        self.forgotten_chunks.setdefault(source_id, {})[chunk_id] = texts.pop(chunk_id)
        self.sources[source_id] = texts

    def forget_source(self, source_id: str) -> None:
        """Forget a source."""
        self.forgotten_sources[source_id] = self.sources.pop(source_id)

    def restore_source(self, source_id: str) -> None:
        """Restore a source without the chunks that were forgotten one by one.

        One that was deleted for good comes back when it is ingested again.
        """
        texts = self.forgotten_sources.pop(source_id)
        if source_id in self.erased:
            self.erased.remove(source_id)
        else:
            self.sources[source_id] = texts

    def restore_chunk(self, source_id: str, chunk_id: str) -> None:
        """Restore a chunk that was forgotten alone; see `restore_source`."""
        text = self.forgotten_chunks[source_id].pop(chunk_id)
        if chunk_id in self.erased:
            self.erased.remove(chunk_id)
        else:
            self.sources[source_id] = {**self.sources[source_id], chunk_id: text}

    def erase(self) -> None:
        """Delete for good what is forgotten."""
        chunk_ids = {name for texts in self.forgotten_chunks.values() for name in texts}
        self.erased.update(self.forgotten_sources, chunk_ids)
        self.clustered -= chunk_ids
        for source_id, texts in self.forgotten_sources.items():
            self.clustered -= texts.keys()
            self.titles.pop(source_id, None)
