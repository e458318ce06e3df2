"""The operator proves that they own the gateway's address by files under `/.well-known/`."""

import httpx2
import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.app import make_mcp_app
from functions.gateway.mcp.selection import SelectedServers
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from tests.support.console_app import CATALOG, URL
from tests.support.fake_catalog import FakeDispatcher


async def test_a_proof_file_is_its_text_and_others_do_not_exist() -> None:
    settings = Settings(
        access_secrets=[SecretStr("s" * 32)], proof_files={"openai-apps-challenge": "a token é"}
    )
    access = Access(settings)
    dispatcher = FakeDispatcher(lambda *_: {})
    find_server = SelectedServers(CATALOG, access.make_pipeline(dispatcher)).find
    app = make_mcp_app(access, dispatcher, find_server)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=URL) as client:
        file = await client.get("/.well-known/openai-apps-challenge")
        other = await client.get("/.well-known/mcp-registry-auth")
    assert (file.status_code, file.content) == (200, "a token é".encode())
    assert file.headers["content-type"] == "text/plain; charset=utf-8"
    assert other.status_code == 404


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "a b", "é", "oauth-protected-resource", "{name}", "a\n"]
)
def test_a_proof_file_needs_a_name_that_is_free(name: str) -> None:
    with pytest.raises(InvalidInput, match="PROOF_FILES"):
        Settings(proof_files={name: "text"})
