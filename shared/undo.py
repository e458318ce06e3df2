"""How to take back what a call did."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from shared.tool import Result


class Undo(Result):
    """A call that takes back what this one changed."""

    tool: str = Field(description="The tool to call.")
    arguments: dict[str, Any] = Field(description="What to call it with.")

    def in_words(self) -> str:
        """A sentence for who reads."""
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        return f"To undo this, call {self.tool} with {arguments}."
