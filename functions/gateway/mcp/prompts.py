"""MCP prompts: what is listed, and how arguments become a text."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from functions.gateway.auth.visitor import Context

MAX_LENGTH: Final = 300
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
                name=argument.name,
                title=argument.title,
                description=argument.description,
                required=argument.required,
            )
            for argument in self.arguments
        ]
        return types.Prompt(
            name=self.name, title=self.title, description=self.description, arguments=arguments
        )

    def argument(self, name: str) -> Argument | None:
        """The argument of this name, if there is one."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def render(self, given: Mapping[str, str]) -> str:
        """The prompt's text for these arguments; an empty one counts as left out.

        Raises:
            InvalidInput: An argument is missing, unknown, or not a short line of text.
        """
        lines = {name: line for name, value in given.items() if (line := " ".join(value.split()))}
        if given.keys() - {argument.name for argument in self.arguments}:
            raise InvalidInput(f"{self.name} takes {self._names()}, and nothing else.")
        needed = [argument.name for argument in self.arguments if argument.required]
        if missing := [name for name in needed if name not in lines]:
            raise InvalidInput(f"{self.name} needs {', '.join(missing)}.")
        filled = [argument for argument in self.arguments if argument.name in lines]
        return self.text({arg.name: _quoted(arg, lines[arg.name]) for arg in filled})

    def _names(self) -> str:
        return ", ".join(argument.name for argument in self.arguments)


class Prompts:
    """Answers `prompts/list` and `prompts/get`."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        """Offer these prompts."""
        self._by_name = {prompt.name: prompt for prompt in prompts}

    async def show(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List all prompts."""
        return types.ListPromptsResult(
            prompts=[prompt.to_mcp() for prompt in self._by_name.values()]
        )

    async def get(
        self, _context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Write one out."""
        prompt = self.named(params.name)
        try:
            text = prompt.render(params.arguments or {})
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )

    def named(self, name: str) -> Prompt:
        """The prompt of this name.

        Raises:
            MCPError: There is none.
        """
        if prompt := self._by_name.get(name):
            return prompt
        message = f"There is no prompt {name[:80]!r}. The prompts are: {', '.join(self._by_name)}."
        raise MCPError(types.INVALID_PARAMS, message)


def _quoted(argument: Argument, line: str) -> str:
    """A value as a JSON string, so that it cannot be taken for the text around it."""
    if len(line) > MAX_LENGTH or any(unicodedata.category(char) == _CONTROL for char in line):
        raise InvalidInput(f"{argument.name} must be one line of at most {MAX_LENGTH} characters.")
    if argument.choices and line not in argument.choices:
        raise InvalidInput(f"{argument.name} must be one of {', '.join(argument.choices)}.")
    return json.dumps(line, ensure_ascii=False)
