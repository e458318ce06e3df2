"""Chooses the halves of the vectors by which a query is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.ai.embedding import Purpose
from shared.ai.vector_halves import TWO_HALVES
from shared.index.embedding_space import EmbeddedLanguages
from shared.text.language import is_foreign, is_likely_foreign

if TYPE_CHECKING:
    from collections.abc import Awaitable


async def choose_query_purpose(
    query: str, model: str, languages: Awaitable[EmbeddedLanguages]
) -> Purpose:
    """Choose the purpose with which to embed a query.

    Args:
        languages: The languages of the embedded texts, which only some queries wait for. A query
            whose language cannot be told counts as English.
    """
    if model != TWO_HALVES:
        return Purpose.QUERY
    if is_foreign(query):
        return Purpose.FOREIGN_QUERY
    if await languages is not EmbeddedLanguages.SEVERAL:
        return Purpose.ENGLISH_QUERY
    return Purpose.FOREIGN_QUERY if is_likely_foreign(query) else Purpose.QUERY
