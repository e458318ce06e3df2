"""What everybody reads holds no secrets and nothing personal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.screening.screen import findings, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.traces.model import Writing


async def require_no_secrets(writing: Writing) -> None:
    """Screen all that a contributor wrote.

    Raises:
        InvalidInput: It holds a secret or personal data; the error says where, never what.
    """
    await require_no_secrets_in(
        {
            "title": writing.title,
            "context_text": writing.context_text,
            "solution_text": writing.solution_text,
            "tags": "\n".join(writing.tags),
        }
    )


async def require_no_secrets_in(texts: Mapping[str, str]) -> None:
    """Screen texts, by the names of their fields.

    Raises:
        InvalidInput: One holds a secret or personal data; the error says where, never what.
    """
    found = await asyncio.to_thread(findings, texts)
    if found:
        raise refusal(found)
