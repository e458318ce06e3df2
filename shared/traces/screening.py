"""Rejects traces that contain secrets or personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.screening.screen import require_shareable_texts

if TYPE_CHECKING:
    from shared.traces.model import TraceContent


async def require_shareable(content: TraceContent) -> None:
    """Check that no text or tag of a trace contains a secret or personal data.

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
