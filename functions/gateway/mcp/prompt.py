"""A prompt is a value: its name, its arguments, and the text it makes of them."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import mcp_types as types

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST: Final = 300
"""Characters that an argument may have: it is a name, a topic or a question."""
_CONTROL: Final = "Cc"
"""The Unicode category of control characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What people may fill in.

    Attributes:
        name: What programs call it.
        title: What people see.
        description: What to fill in.
        required: Whether the prompt makes no sense without it.
        kind: The kind of names that it is one of, and is completed to.
        choices: The values it may have, if they are few and known.
    """

    name: str
    title: str
    description: str
    required: bool = False
    kind: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt.

    Attributes:
        name: What programs call it.
        title: What people see.
        description: What it brings about.
        arguments: What people may fill in.
        text: Makes the text of the arguments that were given, each of them in quotation marks.
    """

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: Callable[[Mapping[str, str]], str]

    def to_mcp(self) -> types.Prompt:
        """The prompt as MCP lists it."""
        arguments = [
            types.PromptArgument(
                name=each.name,
                title=each.title,
                description=each.description,
                required=each.required,
            )
            for each in self.arguments
        ]
        return types.Prompt(
            name=self.name, title=self.title, description=self.description, arguments=arguments
        )

    def argument(self, name: str) -> Argument | None:
        """The argument of this name, if there is one."""
        return next((each for each in self.arguments if each.name == name), None)

    def render(self, given: Mapping[str, str]) -> str:
        """The prompt's text for these arguments; an empty one counts as left out.

        Raises:
            InvalidInput: An argument is missing, unknown, or not a short line of text.
        """
        lines = {name: line for name, value in given.items() if (line := " ".join(value.split()))}
        if given.keys() - {each.name for each in self.arguments}:
            raise InvalidInput(f"{self.name} takes {self._names()}, and nothing else.")
        needed = [each.name for each in self.arguments if each.required]
        if missing := [name for name in needed if name not in lines]:
            raise InvalidInput(f"{self.name} needs {', '.join(missing)}.")
        filled = [each for each in self.arguments if each.name in lines]
        return self.text({each.name: _quoted(each, lines[each.name]) for each in filled})

    def _names(self) -> str:
        return ", ".join(each.name for each in self.arguments)


def _quoted(argument: Argument, line: str) -> str:
    """A value as a JSON string, so that it cannot be taken for the text around it."""
    if len(line) > LONGEST or any(unicodedata.category(each) == _CONTROL for each in line):
        raise InvalidInput(f"{argument.name} must be one line of at most {LONGEST} characters.")
    if argument.choices and line not in argument.choices:
        raise InvalidInput(f"{argument.name} must be one of {', '.join(argument.choices)}.")
    return json.dumps(line, ensure_ascii=False)
