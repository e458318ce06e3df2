"""The texts about tools that a model reads name only existing tools, and titles differ."""

import json
import re
from itertools import permutations

import pytest

from functions.gateway.mcp.instructions import INSTRUCTIONS
from functions.gateway.mcp.prompt_texts import PROMPTS
from infra.build.discovery import tools

VISIBLE = {tool.name: tool for tool in tools() if not tool.internal}
VERBS = "|".join(sorted({name.partition("_")[0] for name in VISIBLE}))
FIELDS = {
    name
    for tool in VISIBLE.values()
    for name in re.findall(r'"(\w+)": \{', json.dumps(tool.declaration()))
}
"""The arguments and result fields, some of which look like names of tools."""


def find_unknown_tools(text: str) -> set[str]:
    """Return the names of tools in a text that do not exist."""
    return set(re.findall(rf"\b(?:{VERBS})_[a-z_]+\b", text)) - VISIBLE.keys() - FIELDS


@pytest.mark.parametrize("name", VISIBLE)
def test_a_declaration_names_existing_tools_only(name: str) -> None:
    assert find_unknown_tools(json.dumps(VISIBLE[name].declaration())) == set()


def test_instructions_and_prompts_name_existing_tools_only() -> None:
    assert find_unknown_tools(INSTRUCTIONS) == set()
    assert find_unknown_tools(" ".join(str(prompt) for prompt in PROMPTS)) == set()


def test_no_title_contains_another() -> None:
    words = {tool.title: set(tool.title.lower().split()) for tool in VISIBLE.values()}
    assert len(words) == len(VISIBLE)
    assert [
        (name, other) for name, other in permutations(words, 2) if words[name] <= words[other]
    ] == []
