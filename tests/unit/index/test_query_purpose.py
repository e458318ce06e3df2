"""A query is embedded with the halves by which it is compared."""

import pytest

from shared.ai.embedding import Purpose
from shared.ai.vector_halves import TWO_HALVES
from shared.index.embedding_space import EmbeddedLanguages
from shared.index.query_purpose import choose_query_purpose


@pytest.mark.parametrize(
    ("query", "languages", "purpose"),
    [
        ("how do I bake bread?", EmbeddedLanguages.ENGLISH, Purpose.ENGLISH_QUERY),
        ("how do I bake bread?", EmbeddedLanguages.SEVERAL, Purpose.QUERY),
        ("sourdough", EmbeddedLanguages.SEVERAL, Purpose.QUERY),
        ("Wie backe ich ein Brot?", EmbeddedLanguages.ENGLISH, Purpose.FOREIGN_QUERY),
        ("Wie backe ich ein Brot?", EmbeddedLanguages.SEVERAL, Purpose.FOREIGN_QUERY),
    ],
)
async def test_the_purpose_follows_from_both_languages(
    query: str, languages: EmbeddedLanguages, purpose: Purpose
) -> None:
    async def check() -> EmbeddedLanguages:
        return languages

    checking = check()
    assert await choose_query_purpose(query, TWO_HALVES, checking) is purpose
    checking.close()


async def test_a_whole_vector_needs_no_choice() -> None:
    async def fail() -> EmbeddedLanguages:
        raise AssertionError

    checking = fail()
    assert await choose_query_purpose("Wie?", "other-model", checking) is Purpose.QUERY
    checking.close()
