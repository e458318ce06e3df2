"""A fake cloud on this machine: functions from their bundles, behind a fake Cloud Run."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT
from infra.local.processes import (
    START_SECONDS,
    Program,
    StartError,
    bind,
    is_listening,
    run,
    socket_address,
    start,
    terminate_all,
    wait_until_serving,
)
from tests.support.cloud_run.bundles import bundles
from tests.support.cloud_run.certificates import certificates
from tests.support.cloud_run.front_end import Service
from tests.support.cloud_run.server import Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from socket import socket
    from subprocess import Popen

    from infra.local.processes import ServerProcess
    from tests.support.cloud_run.bundles import Bundle

GATEWAY: Final = "gateway"
SCHEDULER: Final = "carrel-scheduler"
"""The account of Cloud Scheduler, which runs jobs."""
_MACHINE: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
_FAKES: Final = ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST", "CARREL_RECORD_QUERIES")
_OUTSIDE_ACCESS: Final = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Functions use these to reach other services. The gateway gets none of them: it would use them to
reach functions."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Functions that answer authorized callers.

    Attributes:
        programs: The functions' programs by name.
        functions: The functions' processes by name.
        urls: The URLs of the functions by name.
        metadata: The address of each service account's metadata server.
        trusted: A file with the certificate authorities that callers trust.
        front: The process of the fake Cloud Run.
    """

    programs: Mapping[str, Program]
    functions: Mapping[str, ServerProcess]
    urls: Mapping[str, str]
    metadata: Mapping[str, str]
    trusted: Path
    front: Popen[bytes]

    def dead(self) -> str:
        """Return the first part that has ended, in words, or empty if all run."""
        if self.front.poll() is not None:
            return "The fake Cloud Run"
        ended_names = (
            name for name, function in self.functions.items() if function.process.poll() is not None
        )
        return next((f"The function of {name}" for name in ended_names), "")

    def gateway(self, environment: Mapping[str, str]) -> Program:
        """Return the program of the gateway, which calls the functions.

        `environment` has precedence.
        """
        urls = {"TOOL_URLS": json.dumps(dict(self.urls)), **environment}
        program = deployed_program(GATEWAY, urls)
        trust = {"SSL_CERT_FILE": str(self.trusted), **_identity(self.metadata[_account(GATEWAY)])}
        return replace(program, environment={**program.environment, **trust})


@contextmanager
def cloud(
    names: Collection[str], environment: Mapping[str, str], *, log: Path | None = None
) -> Iterator[Cloud]:
    """Serve functions until the block ends. They answer when the block begins.

    Args:
        names: The names of tools and jobs.
        environment: Additional variables; a function gets only those that it reads.
        log: A file for their output; by default, the output of this process.

    Raises:
        InvalidInput: A function imports something that is not available.
        StartError: A function does not answer.
    """
    deployed_bundles = bundles(names)
    holders = {_account(bundle.key) for bundle in deployed_bundles.values()} | {
        _account(GATEWAY),
        SCHEDULER,
    }
    with ExitStack() as stack, ExitStack() as handed_over:
        fronts = {name: handed_over.enter_context(bind()) for name in deployed_bundles}
        inner = {holder: handed_over.enter_context(bind()) for holder in sorted(holders)}
        metadata = {holder: socket_address(listener) for holder, listener in inner.items()}
        programs = {
            name: _program(deployed_bundle, environment, metadata)
            for name, deployed_bundle in deployed_bundles.items()
        }
        processes = {name: start(stack, program, log=log) for name, program in programs.items()}
        stack.callback(terminate_all, processes.values())
        services = {
            listener.fileno(): _service(
                deployed_bundles[name], socket_address(listener), processes[name]
            )
            for name, listener in fronts.items()
        }
        accounts = {listener.fileno(): holder for holder, listener in inner.items()}
        certificate = certificates()
        plan = Plan(certificate=certificate.server, services=services, accounts=accounts)
        front = _start_front_end(stack, plan, [*fronts.values(), *inner.values()], log)
        handed_over.close()  # so that callers of a dead Cloud Run do not wait
        for name, program in programs.items():
            wait_until_serving(processes[name], program)
        trusted_file = (
            Path(stack.enter_context(TemporaryDirectory(prefix="carrel-"))) / "trusted.pem"
        )
        trusted_file.write_text(certificate.trusted, "utf-8")
        urls = {
            name: service.url
            for name, service in zip(deployed_bundles, services.values(), strict=True)
        }
        yield Cloud(programs, processes, urls, metadata, trusted_file, front)


def deployed_program(name: str, environment: Mapping[str, str]) -> Program:
    """Return a deployed function without a service account.

    Args:
        name: The name of its tool or job; `gateway` for the gateway.
        environment: Additional variables; it gets only those that it reads.

    Raises:
        InvalidInput: It imports something that is not available.
    """
    [bundle] = bundles([name]).values()
    return _program(bundle, environment, {})


def _program(
    bundle: Bundle, environment: Mapping[str, str], metadata: Mapping[str, str]
) -> Program:
    outside_variables = () if bundle.name == GATEWAY else _OUTSIDE_ACCESS
    expected = {*bundle.variables, *_MACHINE, *_FAKES, *outside_variables}
    variables = {**os.environ, **environment}
    return Program(
        source=bundle.folder / "main.py",
        python=bundle.python,
        environment={name: value for name, value in variables.items() if name in expected}
        | _identity(metadata.get(_account(bundle.key))),
        folder=bundle.folder,
    )


def _identity(host: str | None) -> dict[str, str]:
    """Return the variables with which google-auth finds the account's tokens."""
    return {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host} if host else {}


def _account(key: str) -> str:
    """Return the service account of a function."""
    return f"carrel-{key}"


def _service(bundle: Bundle, host: str, process: ServerProcess) -> Service:
    """Return the service of a function, with the invokers that `infra/terraform` grants."""
    invoker = SCHEDULER if bundle.kind == "job" else _account(GATEWAY)
    return Service(
        url=f"https://{host}", function=process.url, invokers=(invoker,), seconds=bundle.seconds
    )


def _start_front_end(
    stack: ExitStack, plan: Plan, sockets: Sequence[socket], log: Path | None
) -> Popen[bytes]:
    """Run the fake Cloud Run until the stack ends.

    Raises:
        StartError: It died or takes too long.
    """
    command = [sys.executable, "-P", "-m", "tests.support.cloud_run.server"]
    environment = {name: os.environ[name] for name in _MACHINE if name in os.environ}
    environment["PYTHONPATH"] = str(ROOT)
    process = run(stack, command, environment=environment, folder=ROOT, sockets=sockets, log=log)
    if process.stdin:
        process.stdin.write(plan.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    deadline = time.monotonic() + START_SECONDS
    for listener in sockets:
        while not is_listening(socket_address(listener)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise StartError("The fake Cloud Run did not start. Its output says why.")
            time.sleep(0.02)
    return process
