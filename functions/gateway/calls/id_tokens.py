"""Google ID tokens for calling our own functions, which only the gateway's account may invoke."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from google.oauth2.credentials import Credentials


class IdTokens:
    """Fetches a token per function from the metadata server, and keeps it until it expires."""

    def __init__(self) -> None:
        """Fetch nothing yet."""
        self._credentials: dict[str, Credentials] = {}

    async def header(self, url: str) -> dict[str, str]:
        """The `Authorization` header for a function; none over plain HTTP, which stays on a laptop.

        Raises:
            OSError: No token can be had.
        """
        if urlsplit(url).scheme != "https":
            return {}
        return {"authorization": f"Bearer {await asyncio.to_thread(self._token, url)}"}

    def _token(self, audience: str) -> str:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
        from google.oauth2 import id_token

        fetch: Any = id_token.fetch_id_token_credentials  # the library has no types

        try:
            credentials = self._credentials.get(audience) or fetch(audience)
            if not credentials.valid:
                credentials.refresh(Request())
        except (GoogleAuthError, KeyError, ValueError) as error:
            # What is no token at all escapes the library as a KeyError or a ValueError.
            raise OSError("no ID token from Google") from error
        self._credentials[audience] = credentials
        return str(credentials.token)
