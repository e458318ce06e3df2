"""Serves functions of the checkout in processes that start without importing packages.

A server, which has imported the packages and nothing of Carrel, forks them. So a function starts in
a quarter of a second instead of two; all of Carrel it still imports itself.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket
from typing import Final, cast

from infra.local.processes import (
    Program,
    ServerProcess,
    bind,
    format_address,
    launcher,
    wait_until_serving,
)

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as in shared.ai._minilm, for the server that forks
_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "functions_framework.aio",
        "google.cloud.firestore",
        "httpx2",
        "jwt",
        "mcp.server.transport_security",
        "numpy",
        "onnxruntime",
        "opentelemetry.trace",
        "regex",
        "Stemmer",
        "structlog",
        "tokenizers",
        "uvicorn.protocols.http.auto",
    ]
)
_STOP_SECONDS: Final = 5.0


@contextmanager
def serve_fork(program: Program, port: int, log: Path) -> Iterator[ServerProcess]:
    """Serve a function as `infra.local.processes.serve` does."""
    reader, writer = _CONTEXT.Pipe(duplex=False)
    with writer:  # or the function ends
        with reader, bind(port) as listener:
            process = _CONTEXT.Process(
                target=_serve, args=(program, listener, reader, log), daemon=True
            )
            process.start()
            url = f"http://{format_address(listener)}"
        server = ServerProcess(url, cast("subprocess.Popen[bytes]", _Fork(process)))
        try:
            wait_until_serving(server, program)
            yield server
        finally:
            _stop(process)


class _Fork:
    """What users of a server need of `subprocess.Popen`."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode


def _serve(program: Program, listener: socket, reader: Connection, log: Path) -> None:
    """Become what `python serve_function.py` would be."""
    os.setsid()
    with log.open("ab") as output:
        for standard, descriptor in enumerate((reader.fileno(), output.fileno(), output.fileno())):
            os.dup2(descriptor, standard)
    os.environ.clear()
    os.environ.update(program.environment)
    os.chdir(program.folder)
    sys.argv = [str(launcher), str(listener.fileno()), str(program.source)]
    runpy.run_path(str(launcher), run_name="__main__")


def _stop(process: multiprocessing.process.BaseProcess) -> None:
    process.terminate()
    process.join(_STOP_SECONDS)
    process.kill()
    process.join()
    process.close()
