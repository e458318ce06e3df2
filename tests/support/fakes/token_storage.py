"""A storage in which the official MCP client keeps its tokens during a test."""

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class MemoryTokenStorage:
    """Stores the tokens and the registration of a client.

    Attributes:
        tokens: The tokens, once the client has some.
        client: The registration, once the client has one.
    """

    def __init__(self) -> None:
        """Begin without tokens and without a registration."""
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration."""
        self.client = client_info
