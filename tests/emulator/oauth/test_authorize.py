"""`/authorize` answers with the consent page, a redirect to the client, or an error page.

A client registers itself, or publishes a document with its metadata, whose URL is then its id.
"""

import pytest

from functions.gateway.oauth.authorization import AuthorizationRequest
from functions.gateway.oauth.consent_page import MAX_NAME_LENGTH
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.errors import RateLimited, Unavailable
from tests.support.authorization_server import (
    CODE_VERIFIER,
    ISSUER,
    REDIRECT_URI,
    RESOURCE,
    AuthorizationServer,
    compute_challenge,
    make_authorization_parameters,
    parse_error,
    parse_query,
    parse_tokens,
)

PUBLISHED_CLIENT_ID = "https://claude.example/client.json"
ACCEPT_HTML = {"accept": "text/html,application/xhtml+xml"}


async def test_the_consent_request_has_the_clients_parameters(server: AuthorizationServer) -> None:
    client = await server.register(client_name="Reading\n\u202eRoom")
    request = await server.request_authorization(client.client_id, scope="carrel:read")
    assert request == AuthorizationRequest(
        client_id=client.client_id,
        client_name="Reading Room",
        redirect_uri=REDIRECT_URI,
        redirect_uri_given=True,
        scopes=frozenset({Scope.READ}),
        state="a state",
        code_challenge=compute_challenge(CODE_VERIFIER),
    )
    answer = await server.http.post(
        "/authorize", data=make_authorization_parameters(client.client_id)
    )
    assert answer.headers["location"].startswith(f"{ISSUER}/consent?request=")


@pytest.mark.parametrize("scope", [None, "", " "])
async def test_scope_redirect_uri_resource_and_state_can_be_omitted(
    server: AuthorizationServer, scope: str | None
) -> None:
    client = await server.register()
    request = await server.request_authorization(
        client.client_id, scope=scope, redirect_uri=None, resource=None, state=None
    )
    assert request.scopes == FULL_ACCESS
    assert (request.redirect_uri, request.redirect_uri_given) == (REDIRECT_URI, False)
    assert request.state is None

    client = await server.register(redirect_uris=[REDIRECT_URI, f"{REDIRECT_URI}/2"])
    answer = await server.authorize(client.client_id, redirect_uri=None)
    assert parse_error(answer) == (400, "invalid_request")
    assert answer.json()["error_description"].startswith("redirect_uri is missing")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"scope": "carrel:read carrel:admin"}, "invalid_scope"),
        *(
            ({"resource": resource}, "invalid_target")
            for resource in (
                *("https://elsewhere.example/mcp", f"{ISSUER}/mcp/other", f"{ISSUER}/MCP", "/"),
                *("http://carrel.example/mcp", "https://carrel.example:80/mcp"),
                *("https://ada@carrel.example/mcp", "https://carrel.example/mcp?a=b"),
                "carrel.example/mcp",
            )
        ),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": CODE_VERIFIER + "="}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"state": "s" * 2_001}, "invalid_request"),
    ],
)
async def test_an_error_is_redirected_to_the_client_with_the_issuer(
    server: AuthorizationServer, change: dict[str, str | None], error: str
) -> None:
    client = await server.register()
    answer = await server.authorize(client.client_id, **change)
    parameters = parse_query(answer.headers["location"])
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(REDIRECT_URI)
    assert (parameters["error"], parameters["iss"]) == (error, ISSUER)
    if error == "invalid_scope":
        description = parameters["error_description"]
        assert description.startswith("unknown scope; the available scopes are")
    assert parameters["state"] == make_authorization_parameters("", **change)["state"]


@pytest.mark.parametrize(
    "resource",
    [f"{RESOURCE}/", "HTTPS://CARREL.EXAMPLE/mcp", "https://Carrel.Example:443/mcp"],
)
async def test_equivalent_spellings_of_the_resource_are_accepted(
    server: AuthorizationServer, resource: str
) -> None:
    client = await server.register()
    code = await server.issue_code(client.client_id, resource=resource)
    parse_tokens(await server.exchange(client, code, resource=resource))


async def test_an_unknown_client_gets_an_error_without_redirect(
    server: AuthorizationServer,
) -> None:
    client = await server.register()
    forged_id = "0b0e9f3c-8d5c-4a52-a2b6-0d2d1a6b3a5e.AAAAAAAA"  # has the form of a real one
    unknown_ids = ["x", forged_id, f"{client.client_id}a", "a/b"]
    for client_id in ["", *unknown_ids]:
        answer = await server.authorize(client_id)
        assert parse_error(answer) == (400, "invalid_request")
        assert "location" not in answer.headers


@pytest.mark.parametrize(
    "redirect_uri",
    [
        f"{REDIRECT_URI}/",
        f"{REDIRECT_URI}?a=b",
        f"{REDIRECT_URI}#here",
        "http://program.example/back",
        "https://program.example@evil.example/back",
        "//program.example/back",
        "javascript:alert(1)",
        "none at all",
    ],
)
async def test_an_unregistered_redirect_uri_is_never_used(
    server: AuthorizationServer, redirect_uri: str
) -> None:
    client = await server.register()
    for scope in ("carrel:read", "nonsense"):
        answer = await server.authorize(client.client_id, redirect_uri=redirect_uri, scope=scope)
        assert parse_error(answer) == (400, "invalid_request")
        assert "location" not in answer.headers


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
@pytest.mark.parametrize("is_published", [True, False])
async def test_a_loopback_redirect_uri_may_have_any_port(
    server: AuthorizationServer, host: str, *, is_published: bool
) -> None:
    uri = f"http://{host}/callback"
    if is_published:
        client_id = server.documents.add(PUBLISHED_CLIENT_ID, uri)
    else:
        client_id = (await server.register(redirect_uris=[uri])).client_id

    uri_with_port = f"http://{host}:49152/callback"
    request = await server.request_authorization(client_id, redirect_uri=uri_with_port)
    assert request.redirect_uri == uri_with_port

    for other_uri in (
        f"http://{host}:49152/other",
        f"https://{host}/callback",
        "http://10.0.0.1/callback",
    ):
        answer = await server.authorize(client_id, redirect_uri=other_uri)
        assert parse_error(answer) == (400, "invalid_request")


async def test_a_missing_path_equals_an_empty_path(server: AuthorizationServer) -> None:
    client = await server.register(redirect_uris=["http://localhost:3000"])
    for uri in ("http://localhost:3000", "http://localhost:3000/"):
        request = await server.request_authorization(client.client_id, redirect_uri=uri)
        assert request.redirect_uri == "http://localhost:3000/"


async def test_an_error_page_contains_no_foreign_markup(server: AuthorizationServer) -> None:
    client = await server.register()
    for parameters in (
        make_authorization_parameters("<script>alert(1)</script>"),
        make_authorization_parameters(client.client_id, redirect_uri="javascript:alert(1)"),
    ):
        answer = await server.http.get("/authorize", params=parameters, headers=ACCEPT_HTML)
        assert answer.status_code == 400
        assert "<h1>" in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "<script" not in answer.text


async def test_only_requests_that_fetch_a_document_are_limited(server: AuthorizationServer) -> None:
    client = await server.register()
    server.limit.attempts.clear()

    await server.authorize(client.client_id)
    assert server.limit.attempts == []

    await server.authorize(server.documents.add(PUBLISHED_CLIENT_ID, REDIRECT_URI))
    assert server.limit.attempts == ["1.2.3.4"]

    server.limit.error = RateLimited("Too often.", retry_after=60)
    server.documents.requests.clear()
    answer = await server.authorize(PUBLISHED_CLIENT_ID)
    assert parse_error(answer) == (429, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "60"
    assert server.documents.requests == []


async def test_a_published_client_has_safe_redirects_and_a_short_name(
    server: AuthorizationServer,
) -> None:
    unsafe_uris = ["http://program.example/back", "data:text/html,x"]
    server.documents.add(PUBLISHED_CLIENT_ID, *unsafe_uris, REDIRECT_URI)
    document = server.documents.published[PUBLISHED_CLIENT_ID]
    long_name = document.model_copy(update={"client_name": "n" * 60_000})
    server.documents.published[PUBLISHED_CLIENT_ID] = long_name
    request = await server.request_authorization(PUBLISHED_CLIENT_ID)
    assert request.client_name == "n" * MAX_NAME_LENGTH + "…"
    for uri in unsafe_uris:
        answer = await server.authorize(PUBLISHED_CLIENT_ID, redirect_uri=uri)
        assert parse_error(answer) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("error", "status", "code", "words"),
    [
        (
            Unavailable("Not now.", retry_after=60),
            503,
            "temporarily_unavailable",
            "now</h1>\n<p>Not now.",
        ),
        (
            RuntimeError("a user's secret"),
            500,
            "server_error",
            "in</h1>\n<p>Carrel has an internal",
        ),
    ],
)
async def test_an_outage_and_an_internal_error_are_shown_without_details(  # noqa: PLR0913, PLR0917
    server: AuthorizationServer,
    error: Exception,
    status: int,
    code: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.documents.error = error
    answer = await server.authorize(PUBLISHED_CLIENT_ID)
    assert parse_error(answer) == (status, code)
    page = await server.http.get(
        "/authorize",
        params=make_authorization_parameters(PUBLISHED_CLIENT_ID),
        headers=ACCEPT_HTML,
    )
    assert page.status_code == status
    assert page.headers.get("retry-after") == ("60" if status == 503 else None)
    assert words in page.text
    assert "a user's secret" not in answer.text + page.text + "".join(capsys.readouterr())
