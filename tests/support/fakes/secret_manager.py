"""A fake of Secret Manager's REST API."""

import base64
import json
import re
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

_PATH: Final = re.compile(r"/v1/projects/(?P<project>[^/]+)/secrets/(?P<secret>[^/:]+)(?P<rest>.*)")


class FakeSecretManager(LoopbackServer):
    """A fake Secret Manager with one project, on a free port while the `with` block runs.

    Attributes:
        project: The id of the project.
        secrets: The values of each secret, the newest last; a secret may have none.
        addresses: The path and query of each request so far.
    """

    def __init__(self, project: str, *names: str) -> None:
        """Open the port. The secrets with these names exist and have no values."""
        super().__init__(_Handler)
        self.project = project
        self.secrets: dict[str, list[str]] = {name: [] for name in names}
        self.addresses: list[str] = []

    @property
    def address(self) -> str:
        """The base URL of the API."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeSecretManager

    def do_GET(self) -> None:
        values, rest = self._read_request()
        if values and rest == "/versions/latest:access":
            data = base64.b64encode(values[-1].encode()).decode()
            return self._send(200, {"payload": {"data": data}})
        if values is not None and rest == "/versions":
            versions = [{"state": "ENABLED"} for _ in values]
            return self._send(200, {"versions": versions} if versions else {})
        return self._send(404, {"error": {"message": "Not found."}})

    def do_POST(self) -> None:
        values, rest = self._read_request()
        body = json.loads(self.read_body())
        if values is None or rest != ":addVersion":
            return self._send(404, {"error": {"message": "Not found."}})
        values.append(base64.b64decode(body["payload"]["data"]).decode())
        return self._send(200, {"state": "ENABLED"})

    def _read_request(self) -> tuple[list[str] | None, str]:
        """Return the values of the secret, or None if there is no such secret; and the method."""
        self.server.addresses.append(self.path)
        parts = urlsplit(self.path)
        match = _PATH.fullmatch(parts.path)
        assert match
        if parts.query:
            assert parse_qs(parts.query)["filter"] == ["state:ENABLED"]
        if match["project"] != self.server.project:
            return None, match["rest"]
        return self.server.secrets.get(match["secret"]), match["rest"]

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        self.send_answer(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})
