"""The texts of a trace, as its contributor sends them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from shared.core.text_validation import one_line, prose


def _on_one_line(text: str) -> str:
    return one_line(" ".join(text.split()))


Title = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_on_one_line)
]
"""What it solves, in a line."""
Text = Annotated[str, StringConstraints(min_length=1, max_length=50_000), AfterValidator(prose)]
"""The problem, or the solution."""
