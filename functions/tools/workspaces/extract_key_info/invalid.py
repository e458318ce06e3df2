"""What is wrong with the arguments of a call, in words."""

from __future__ import annotations

from shared.core.errors import InvalidInput


def invalid(field: str, told: str) -> InvalidInput:
    """An argument that `extract_key_info` cannot work with, and why."""
    message = f"extract_key_info was not run. {field}: {told}. Correct this and call it again."
    return InvalidInput(message, details={field: told})
