"""The examples of all tools."""

from typing import Final

from tests.examples import extractions, reading, reviews, tasks, traces, workspaces, writing
from tests.examples.example import Example

EXAMPLES: Final[dict[str, Example]] = {
    name: example
    for group in (extractions, reading, reviews, tasks, traces, workspaces, writing)
    for name, example in group.EXAMPLES.items()
}
"""The examples by the name of their tool."""
