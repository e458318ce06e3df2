"""All endpoints of the authorization server parse their parameters by the same rules."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from shared.core.settings import Settings
from tests.support.authorization_server import serve_authorization_server
from tests.support.sign_in_app import SignInApp

FORM = "application/x-www-form-urlencoded"
PATHS = ["/authorize", "/token", "/revoke", "/consent"]


@pytest.fixture
async def endpoints(
    settings: Settings, project: str
) -> AsyncIterator[dict[str, httpx2.AsyncClient]]:
    """The HTTP client of each path."""
    async with (
        serve_authorization_server(project) as server,
        SignInApp(settings).make_client() as browser,
    ):
        yield {path: browser if path == "/consent" else server.http for path in PATHS}


async def post(
    endpoints: dict[str, httpx2.AsyncClient], path: str, body: bytes, content_type: str = FORM
) -> httpx2.Response:
    """Post a body to the endpoint with this path."""
    return await endpoints[path].post(path, content=body, headers={"content-type": content_type})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"{}", "Send the parameters as"),
        ("multipart/form-data; boundary=b", b"--b--", "Send the parameters as"),
        (FORM, b"state=a&state=a", "is repeated"),
        (FORM, b"state=\xff\xfe", "are not valid"),
        (FORM, b"&".join(b"a%d=b" % number for number in range(101)), "are not valid"),
    ],
)
async def test_an_invalid_form_is_rejected_with_a_hint(
    endpoints: dict[str, httpx2.AsyncClient],
    path: str,
    content_type: str,
    body: bytes,
    message: str,
) -> None:
    answer = await post(endpoints, path, body, content_type)
    assert answer.status_code == 400
    assert message in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_empty_values_twenty_parameters_and_64_kib_are_accepted(
    endpoints: dict[str, httpx2.AsyncClient], path: str
) -> None:
    twenty_parameters = b"&".join(b"a%d=b" % number for number in range(20))
    answer = await post(
        endpoints, path, b"state=&state=a&" + twenty_parameters, f"{FORM};charset=UTF-8"
    )
    assert not any(words in answer.text for words in ("is repeated", "are not valid"))
    for size, is_too_large in ((65_536, False), (65_537, True)):
        answer = await post(endpoints, path, b"state=".ljust(size, b"s"))
        assert (answer.status_code == 413) is is_too_large


@pytest.mark.parametrize("query", ["state=a&state=b", "state=%ff&state=%fe"])
async def test_a_query_is_read_by_the_same_rules(
    endpoints: dict[str, httpx2.AsyncClient], query: str
) -> None:
    answer = await endpoints["/authorize"].get(f"/authorize?{query}")
    assert answer.status_code == 400
    assert "is repeated" in answer.text
