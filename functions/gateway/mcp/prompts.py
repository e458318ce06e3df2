"""MCP prompts: their declarations, and the handlers that list and render them."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.mcp.results import quote
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from functions.gateway.auth.visitor import RequestContext

MAX_ARGUMENT_LENGTH: Final = 300
"""An argument, such as a name or a question, has at most this many characters."""
_CONTROL_CATEGORY: Final = "Cc"
"""The Unicode category of control characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """An argument of a prompt, which a person fills in.

    Attributes:
        kind: The kind of name that completion offers, such as `author`.
    """

    name: str
    title: str
    description: str
    required: bool = False
    kind: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt that clients offer to people.

    Attributes:
        text: Makes the text from the arguments, each in quotation marks.
    """

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    text: Callable[[Mapping[str, str]], str]

    @property
    def example(self) -> str:
        """The prompt's text with the names of its arguments as their values."""
        return self.text({argument.name: argument.name for argument in self.arguments})

    def to_mcp(self) -> types.Prompt:
        """Convert the prompt to MCP's format."""
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

    def find_argument(self, name: str) -> PromptArgument | None:
        """Find the argument with this name."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def render(self, arguments: Mapping[str, str]) -> str:
        """Render the prompt's text. An argument of only white space counts as missing.

        Raises:
            InvalidInput: An argument is missing, unknown, too long or not a single line.
        """
        lines = {
            name: line for name, value in arguments.items() if (line := " ".join(value.split()))
        }
        if arguments.keys() - {argument.name for argument in self.arguments}:
            names = ", ".join(argument.name for argument in self.arguments)
            raise InvalidInput(f"{self.name} takes only these arguments: {names}.")
        required_names = [argument.name for argument in self.arguments if argument.required]
        if missing_names := [name for name in required_names if name not in lines]:
            raise InvalidInput(f"{self.name} needs {', '.join(missing_names)}.")
        return self.text(
            {
                argument.name: _format_value(argument, lines[argument.name])
                for argument in self.arguments
                if argument.name in lines
            }
        )


class Prompts:
    """Answers `prompts/list` and `prompts/get`."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self._by_name = {prompt.name: prompt for prompt in prompts}

    async def list_prompts(
        self, _context: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List all prompts."""
        return types.ListPromptsResult(
            prompts=[prompt.to_mcp() for prompt in self._by_name.values()]
        )

    async def get_prompt(
        self, _context: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Render a prompt."""
        prompt = self.find(params.name)
        try:
            text = prompt.render(params.arguments or {})
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )

    def find(self, name: str) -> Prompt:
        """Find the prompt with this name.

        Raises:
            MCPError: There is no prompt with this name.
        """
        if prompt := self._by_name.get(name):
            return prompt
        message = f"There is no prompt {quote(name)}. The prompts are: {', '.join(self._by_name)}."
        raise MCPError(types.INVALID_PARAMS, message)


def _format_value(argument: PromptArgument, line: str) -> str:
    """Check a value, and quote it as a JSON string to separate it from the surrounding text."""
    if len(line) > MAX_ARGUMENT_LENGTH or any(
        unicodedata.category(character) == _CONTROL_CATEGORY for character in line
    ):
        raise InvalidInput(
            f"{argument.name} must be one line of at most {MAX_ARGUMENT_LENGTH} characters."
        )
    if argument.choices and line not in argument.choices:
        raise InvalidInput(f"{argument.name} must be one of {', '.join(argument.choices)}.")
    return json.dumps(line, ensure_ascii=False)
