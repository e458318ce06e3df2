"""Rejects traces that contain secrets or personal data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.screening.screen import screen_texts, screening_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.traces.model import TraceContent


async def require_shareable(content: TraceContent) -> None:
    """Screen all texts and tags of a trace.

    Raises:
        InvalidInput: A text contains a secret or personal data. The error names the lines, never
            the values.
    """
    await require_shareable_texts(
        {
            "title": content.title,
            "context_text": content.context_text,
            "solution_text": content.solution_text,
            "tags": "\n".join(content.tags),
        }
    )


async def require_shareable_texts(texts: Mapping[str, str]) -> None:
    """Screen texts, which are given by argument name.

    Raises:
        InvalidInput: A text contains a secret or personal data. The error names the lines, never
            the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts):
        raise screening_error(findings)
