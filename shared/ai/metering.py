"""What a language model is asked for, counted whatever becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from shared.ai.generation import Generated, ModelT
    from shared.core.meter import Meter


async def metered(asked: Awaitable[Generated[ModelT]], meter: Meter) -> ModelT:
    """Wait for an answer, and count the tokens it cost, or the failure did.

    Args:
        asked: What `Generator.generate` returns.
        meter: What counts them.

    Raises:
        CarrelError: See `Generator.generate`.
    """
    try:
        generated = await asked
    except CarrelError as error:
        meter.input_tokens += error.details.get("input_tokens", 0)
        meter.output_tokens += error.details.get("output_tokens", 0)
        raise
    meter.input_tokens += generated.input_tokens
    meter.output_tokens += generated.output_tokens
    return generated.value
