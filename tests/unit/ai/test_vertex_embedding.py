"""The Vertex AI embedder is tested with Google's client and a fake server."""

import math

import pytest

from shared.ai.embedding import Purpose, unit_vector
from tests.support.fakes.vertex import FakeVertex, Reply, hash_words
from tests.support.model_clients import CREDENTIAL, open_vertex_embedder


@pytest.mark.parametrize(
    ("model", "method"),
    [("gemini-embedding-001", "predict"), ("gemini-embedding-2", "embedContent")],
)
@pytest.mark.parametrize(
    ("purpose", "task_type"),
    [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
async def test_the_request_has_model_purpose_and_dimension(
    purpose: Purpose, task_type: str, model: str, method: str
) -> None:
    with FakeVertex() as server:
        async with open_vertex_embedder(server, model=model, dimension=768) as embedder:
            (vector,) = await embedder.embed(["Bees dance."], purpose)

    assert vector == pytest.approx(unit_vector(hash_words("Bees dance.", 768), 768))
    assert math.hypot(*vector) == pytest.approx(1.0)

    (call,) = server.calls
    assert call.path == (
        f"/v1beta1/projects/shelf/locations/europe-west4/publishers/google/models/{model}:{method}"
    )
    assert call.authorization == f"Bearer {CREDENTIAL}"
    assert call.config == {
        "taskType": task_type,
        "outputDimensionality": 768,
        "autoTruncate": True,
    }


async def test_each_text_has_its_own_request_and_its_own_vector() -> None:
    texts = [f"text {number}" for number in range(6)]
    with FakeVertex(Reply(pause=0.2), Reply(pause=0.1)) as server:
        async with open_vertex_embedder(server) as embedder:
            vectors = await embedder.embed(texts, Purpose.DOCUMENT)
    assert sorted(call.text for call in server.calls) == texts
    assert [len(call.body["instances"]) for call in server.calls] == [1] * 6
    assert vectors == [pytest.approx(unit_vector(hash_words(text, 8), 8)) for text in texts]
