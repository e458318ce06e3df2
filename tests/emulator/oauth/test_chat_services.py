"""Sign-in as ChatGPT and Gemini do it, by what they publish and what others saw them send.

Nobody has tried Carrel with these services: the documents and addresses are those of public reports
(django-oauth/django-oauth-toolkit#1857, stacklok/toolhive#6278, es617/obsidian-sync-mcp#12 and
homeassistant-ai/ha-mcp#1787).
"""

import json
from typing import Any

import pytest

from functions.gateway.oauth.client_id_metadata import parse_client
from shared.core.caller import Scope
from tests.support.authorization_server import RESOURCE, AuthorizationServer, parse_tokens

CHATGPT: dict[str, Any] = {
    "client_id": "https://chatgpt.com/oauth/client.json",
    "client_uri": "https://chatgpt.com/",
    "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "client_name": "ChatGPT",
    "logo_uri": "https://persistent.oaistatic.com/sonic/misc/openai-logo.png",
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}
"""ChatGPT's document, and the callback that is the same for all of its users."""
CHATGPT_CONNECTOR = CHATGPT | {
    "client_id": "https://chatgpt.com/oauth/IbUR3zxyNQ16/client.json",
    "redirect_uris": ["https://chatgpt.com/connector/oauth/IbUR3zxyNQ16"],
}
"""The document of one connector."""
ASSERTION = {
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "client_assertion": "e30.e30.c2ln",
}
GEMINI_CALLBACK = "https://oauth-redirect.googleusercontent.com/r/user_bound_custom-mcp-1-carrel"
GEMINI = {
    "client_id": "https://accountlinking.google.com/clientidmetadata/user_bound_provider/x",
    "client_name": "Gemini",
    "redirect_uris": [GEMINI_CALLBACK],
}
"""A document of Gemini's. Its address and callback were seen, its other fields were not."""


@pytest.mark.parametrize("document", [CHATGPT, CHATGPT_CONNECTOR, GEMINI])
async def test_a_chat_service_signs_in_by_its_document(
    server: AuthorizationServer, document: dict[str, Any]
) -> None:
    """ChatGPT prefers a signed assertion, and its document says that it can do without."""
    client_id, [callback] = document["client_id"], document["redirect_uris"]
    server.documents.published[client_id] = parse_client(json.dumps(document).encode(), client_id)
    registered = await server.register(token_endpoint_auth_method="none")
    client = registered.model_copy(update={"client_id": client_id})
    for assertion in ({}, ASSERTION):
        code = await server.issue_code(client_id, redirect_uri=callback)
        answer = await server.exchange(
            client, code, redirect_uri=callback, resource=RESOURCE, **assertion
        )
        tokens = parse_tokens(answer)
    refreshed = parse_tokens(await server.refresh(client, tokens.refresh_token))
    token = server.access.tokens.verify(refreshed.access_token)
    assert token.client_id == client_id
    assert token.scopes == {Scope.READ, Scope.WRITE}


async def test_gemini_registers_and_signs_in_with_a_secret(server: AuthorizationServer) -> None:
    client = await server.register(
        client_name="Gemini Spark",
        redirect_uris=[GEMINI_CALLBACK],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="client_secret_post",
        scope="mcp",
    )
    assert client.client_secret
    code = await server.issue_code(client.client_id, redirect_uri=GEMINI_CALLBACK, scope=None)
    tokens = parse_tokens(await server.exchange(client, code, redirect_uri=GEMINI_CALLBACK))
    parse_tokens(await server.refresh(client, tokens.refresh_token))
