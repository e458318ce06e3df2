"""What the local gateway loads before the first search."""

from dataclasses import replace

import pytest

from infra.local.warm_up import load_multilingual_model
from shared.ai.local_embedding import LocalEmbedder
from shared.knowledge.source import Section, Source
from tests.support.apps import Apps
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, store_sources

GERMAN = replace(BAKING, sections=(Section("Der Teig ist glatt, wenn er nicht mehr klebt."),))


class RecordingEmbedder(LocalEmbedder):
    """A local embedder that records whether its second model was loaded on request."""

    is_multilingual = False

    def load_multilingual(self) -> None:
        self.is_multilingual = True
        super().load_multilingual()


@pytest.mark.parametrize(("source", "expected"), [(BAKING, False), (GERMAN, True)])
async def test_the_second_model_is_loaded_for_texts_in_several_languages(
    apps: Apps, source: Source, *, expected: bool
) -> None:
    embedder = RecordingEmbedder()
    app = apps(embedder=embedder)
    await store_sources(make_job_context(app), source)
    await load_multilingual_model(app)
    assert embedder.is_multilingual is expected
