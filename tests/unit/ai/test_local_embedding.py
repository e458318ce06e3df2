"""The local embedder returns a stable vector of length 1 for any text."""

import asyncio
import math
import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from shared.ai import _minilm
from shared.ai.embedding import Purpose, Vector
from shared.ai.local_embedding import LocalEmbedder
from shared.ai.vector_halves import ENGLISH_DIMENSION, QUERY_WEIGHTS, weigh
from shared.core.errors import InvalidInput


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The real embedder."""
    return local_embedder


@pytest.mark.parametrize(
    ("text", "first_numbers"),
    [
        ("A carrel is a desk in a library.", (-0.0011, -0.0054, -0.0534, -0.0381)),
        ("Wo steht das Buch über die Hanse?", (-0.0497, 0.0703, 0.0304, 0.0057)),
    ],
)
async def test_known_texts_have_their_stored_vectors(
    embedder: LocalEmbedder, text: str, first_numbers: tuple[float, ...]
) -> None:
    (vector,) = await embedder.embed([text], Purpose.DOCUMENT)
    assert vector[:4] == pytest.approx([x / math.sqrt(2) for x in first_numbers], abs=5e-4)


async def test_a_query_in_another_language_is_nearest_to_its_answer(
    embedder: LocalEmbedder,
) -> None:
    """Each kind of query has the halves that it is compared by, and no other."""
    texts = ["Dough rises for an hour.", "Ships sail to Lübeck."]
    answer, unrelated = await embedder.embed(texts, Purpose.DOCUMENT)
    for text, purpose in [
        ("How long must the dough rest?", Purpose.ENGLISH_QUERY),
        ("How long must the dough rest?", Purpose.QUERY),
        ("Wie lange muss der Teig ruhen?", Purpose.FOREIGN_QUERY),
        ("面团要发酵多久", Purpose.FOREIGN_QUERY),
    ]:
        (vector,) = await embedder.embed([text], purpose)
        query = weigh(vector, embedder.model, QUERY_WEIGHTS[purpose])
        halves = [math.hypot(*vector[:384]), math.hypot(*vector[384:])]
        assert [bool(length) for length in halves] == [bool(w) for w in QUERY_WEIGHTS[purpose]]
        similarities = [
            query.to_similarity(query.measure_distance(other)) for other in (answer, unrelated)
        ]
        assert similarities[0] > similarities[1] + 0.15


async def test_each_text_gets_a_unit_vector_in_order(embedder: LocalEmbedder) -> None:
    texts = ["Bees dance.", "Ships sail to Lübeck.", "Bees dance."]
    bees, ships, bees_again = await embedder.embed(texts, Purpose.DOCUMENT)
    assert [len(vector) for vector in (bees, ships)] == [embedder.dimension] * 2
    assert [math.hypot(*vector) for vector in (bees, ships)] == pytest.approx([1.0, 1.0])
    assert bees == bees_again
    assert bees != ships
    assert await embedder.embed([], Purpose.DOCUMENT) == []
    with pytest.raises(InvalidInput, match="whole characters"):
        await embedder.embed(["\ud83d"], Purpose.QUERY)


async def test_a_query_is_nearest_to_its_answer(embedder: LocalEmbedder) -> None:
    answer, unrelated = await embedder.embed(
        ["Honey bees tell each other where flowers are.", "The league traded salt and cloth."],
        Purpose.DOCUMENT,
    )
    (question,) = await embedder.embed(["How do bees communicate?"], Purpose.QUERY)
    assert math.dist(question, answer) < math.dist(question, unrelated) - 0.2


@pytest.mark.parametrize("text", ["", " \n", "\x00\u200b", "\U000e0001"])
async def test_a_text_without_words_still_gets_a_unit_vector(
    embedder: LocalEmbedder, text: str
) -> None:
    (vector,) = await embedder.embed([text], Purpose.DOCUMENT)
    assert math.hypot(*vector) == pytest.approx(1.0)


async def test_only_the_first_256_tokens_count_in_the_english_half(embedder: LocalEmbedder) -> None:
    short_text = "word " * 254  # the model adds a token at each end
    short_vector, long_vector = await embedder.embed(
        [short_text, short_text + "tail " * 100], Purpose.DOCUMENT
    )
    assert short_vector[:ENGLISH_DIMENSION] == long_vector[:ENGLISH_DIMENSION]
    assert short_vector != long_vector


async def test_a_query_does_not_wait_for_a_whole_batch(embedder: LocalEmbedder) -> None:
    batch = asyncio.create_task(embedder.embed(["passage " * 200] * 6, Purpose.DOCUMENT))
    await embedder.embed(["query"], Purpose.QUERY)
    assert not batch.done()
    assert len(await batch) == 6


async def test_an_error_stops_the_other_texts_of_the_call() -> None:
    class FailingModel:
        def embed(self, text: str) -> Vector:
            if text == "0":
                raise RuntimeError
            return (1.0,)

    embedder = LocalEmbedder()
    vars(embedder)["_english"] = FailingModel()
    tasks_before = asyncio.all_tasks()
    with pytest.raises(RuntimeError):
        await embedder.embed([str(number) for number in range(10_000)], Purpose.ENGLISH_QUERY)
    assert asyncio.all_tasks() == tasks_before

    await embedder.aclose()


async def test_a_text_during_the_load_waits_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway loads the model in the background, and no search loads it again."""
    loads = []
    is_loading, may_load = Event(), Event()

    class WaitingModel(_minilm.MiniLM):
        def __init__(self) -> None:
            loads.append(self)
            is_loading.set()
            may_load.wait()
            super().__init__()

    monkeypatch.setattr(_minilm, "MiniLM", WaitingModel)
    embedder = LocalEmbedder()
    load = asyncio.create_task(asyncio.to_thread(embedder.load))
    await asyncio.to_thread(is_loading.wait)
    embedding = asyncio.create_task(embedder.embed(["Bees dance."], Purpose.ENGLISH_QUERY))
    await asyncio.wait([embedding], timeout=0.1)  # so that a second load would begin
    may_load.set()
    assert [len(vector) for vector in await embedding] == [embedder.dimension]
    await load
    assert len(loads) == 1
    await embedder.aclose()


def test_the_model_reports_nothing_to_the_makers_of_its_library(tmp_path: Path) -> None:
    """ONNX Runtime keeps what it is about to send, and an id of the machine, in the home folder."""
    kept = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    program = "from shared.ai._minilm import _load_network; _load_network()"
    subprocess.run(
        [sys.executable, "-c", program], env=environment | {"HOME": str(tmp_path)}, check=True
    )
    assert list(tmp_path.rglob("*")) == []
