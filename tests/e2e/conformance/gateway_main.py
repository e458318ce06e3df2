"""The gateway with the tools and the prompt of the conformance suite instead of Carrel's.

Some scenarios use tools and prompts that the suite expects of every server under test. They are
defined here. Everything else is the real gateway.
"""

from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app, wrap_as_function
from functions.gateway.catalog import Catalog, Declaration
from functions.gateway.mcp.prompts import Prompt, PromptArgument
from functions.gateway.mcp.server import build_server
from shared.core.caller import Role, Scope, Tier
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest
from shared.runtime.tool import Effect

SAMPLING_TOOL: Final = "test_missing_capability"
"""The tool that works only for clients that can sample."""
TOOLS: Final = (SAMPLING_TOOL, "test_streaming_elicitation", "test_logging_tool")
_WORD: Final = PromptArgument(
    name="arg1", title="Word", description="A word.", choices=("testing", "trying")
)
PROMPT: Final = Prompt(
    name="test_prompt_with_arguments",
    title="A prompt",
    description="A prompt that the conformance suite asks for.",
    arguments=(_WORD,),
    text=lambda arguments: f"What is {arguments['arg1']}?",
)


class SuiteTools:
    """A dispatcher of the suite's tools."""

    async def call(self, tool: Declaration, _request: CallRequest) -> CallAnswer:
        """Raise the error that the suite expects of one tool, or return an empty result."""
        if tool.name == SAMPLING_TOOL:
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This works only for clients that can sample.",
                {"requiredCapabilities": {"sampling": {}}},
            )
        return CallAnswer(result={})

    async def health(self) -> dict[str, str]:
        """Return no parts, because the tools have none."""
        return {}


def declare(name: str) -> Declaration:
    """Declare a tool of the suite."""
    return Declaration(
        name=name,
        title=name,
        description="A tool that the conformance suite asks for.",
        inputSchema={"type": "object"},
        outputSchema={"type": "object"},
        effect=Effect.READ,
        tier=Tier.PUBLIC,
        role=Role.READER,
        scope=Scope.READ,
        timeout=5,
    )


_tools = SuiteTools()
_access = Access(Settings())
_catalog = Catalog([declare(name) for name in TOOLS])
_server = build_server(_catalog, _access.make_pipeline(_tools), [PROMPT])
handle = wrap_as_function(make_mcp_app(_access, _tools, lambda _query: _server))
