"""A fake cloud on this machine: functions run from their bundles, behind a fake Cloud Run.

A bundle is the archive with which a function is deployed. Callers need ID tokens, as in the cloud.
"""

import json
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Final

import certifi

from infra.build.discovery import ROOT
from infra.local.processes import (
    START_SECONDS,
    Program,
    ServerProcess,
    StartError,
    bind,
    format_address,
    is_listening,
    run,
    start,
    terminate_all,
    wait_until_serving,
)
from tests.support.certificates import write_certificate
from tests.support.cloud_run.bundles import Bundle, pack_bundles
from tests.support.cloud_run.front_end import Service
from tests.support.cloud_run.server import Plan

GATEWAY: Final = "gateway"
"""The name of the gateway's function."""
SCHEDULER: Final = "carrel-scheduler"
"""The account of Cloud Scheduler, which runs jobs."""
_MACHINE_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
"""Variables that every process on this machine gets."""
_FAKE_SERVICES: Final = ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST")
"""Variables that lead functions to fake services."""
_OUTSIDE_ACCESS: Final = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Variables by which functions reach outside services.

The gateway gets none of them. Otherwise, it would call the functions through the proxy, and with
the credentials, that these variables name.
"""


@dataclass(frozen=True, slots=True)
class Cloud:
    """The functions of a fake cloud, which answer authorized callers.

    Attributes:
        programs: The functions' programs by name.
        functions: The functions' processes by name.
        urls: The public URLs of the functions by name.
        metadata: The host and port of each service account's metadata server.
        trusted: A file with the certificate authorities that callers trust.
    """

    programs: Mapping[str, Program]
    functions: Mapping[str, ServerProcess]
    urls: Mapping[str, str]
    metadata: Mapping[str, str]
    trusted: Path

    def make_gateway_program(self, environment: Mapping[str, str]) -> Program:
        """Return the program of a gateway that calls the functions.

        The `environment` overrides the default variables.
        """
        urls = {"TOOL_URLS": json.dumps(dict(self.urls)), **environment}
        program = make_deployed_program(GATEWAY, urls)
        trust = {
            "SSL_CERT_FILE": str(self.trusted),
            **_make_identity(self.metadata[_get_account(GATEWAY)]),
        }
        return replace(program, environment={**program.environment, **trust})


@contextmanager
def run_cloud(
    names: Collection[str], environment: Mapping[str, str], *, log: Path | None = None
) -> Iterator[Cloud]:
    """Serve functions until the block ends. All of them answer when the block begins.

    Args:
        names: The names of tools and jobs.
        environment: Additional variables; a function gets only those that it reads.
        log: A file for the functions' output; by default, the output of this process.

    Raises:
        InvalidInput: A function imports something that is not available.
        StartError: A function does not answer.
    """
    deployed_bundles = pack_bundles(names)
    function_accounts = {_get_account(bundle.key) for bundle in deployed_bundles.values()}
    accounts = sorted(function_accounts | {_get_account(GATEWAY), SCHEDULER})
    with ExitStack() as stack, ExitStack() as socket_stack:
        service_sockets = {name: socket_stack.enter_context(bind()) for name in deployed_bundles}
        metadata_sockets = {account: socket_stack.enter_context(bind()) for account in accounts}
        metadata = {
            account: format_address(listener) for account, listener in metadata_sockets.items()
        }
        programs = {
            name: _make_program(bundle, environment, metadata)
            for name, bundle in deployed_bundles.items()
        }
        processes = {name: start(stack, program, log=log) for name, program in programs.items()}
        stack.callback(terminate_all, processes.values())
        services = {
            name: _make_service(deployed_bundles[name], format_address(listener), processes[name])
            for name, listener in service_sockets.items()
        }
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="carrel-")))
        certificate = write_certificate(folder / "server.pem").read_text("utf-8")
        plan = Plan(
            certificate=certificate,
            services={
                service_sockets[name].fileno(): service for name, service in services.items()
            },
            accounts={listener.fileno(): name for name, listener in metadata_sockets.items()},
        )
        sockets = [*service_sockets.values(), *metadata_sockets.values()]
        _start_front_end(stack, plan, sockets, log)
        # The fake Cloud Run has its own copies. While this process held sockets open, callers of a
        # dead Cloud Run would wait instead of being refused.
        socket_stack.close()
        for name, program in programs.items():
            wait_until_serving(processes[name], program)
        machine = Path(os.environ.get("SSL_CERT_FILE") or certifi.where()).read_text("utf-8")
        trusted_file = folder / "trusted.pem"
        trusted_file.write_text(f"{machine}\n{certificate}", "utf-8")
        urls = {name: service.url for name, service in services.items()}
        yield Cloud(programs, processes, urls, metadata, trusted_file)


def make_deployed_program(name: str, environment: Mapping[str, str]) -> Program:
    """Return a deployed function without a service account.

    Args:
        name: The name of the tool or job; `gateway` for the gateway.
        environment: Additional variables; the function gets only those that it reads.

    Raises:
        InvalidInput: The function imports something that is not available.
    """
    [bundle] = pack_bundles([name]).values()
    return _make_program(bundle, environment, {})


def _make_program(
    bundle: Bundle, environment: Mapping[str, str], metadata: Mapping[str, str]
) -> Program:
    outside_variables = () if bundle.name == GATEWAY else _OUTSIDE_ACCESS
    names = {*bundle.variables, *_MACHINE_VARIABLES, *_FAKE_SERVICES, *outside_variables}
    variables = {**os.environ, **environment}
    return Program(
        source=bundle.folder / "main.py",
        python=bundle.python,
        environment={name: value for name, value in variables.items() if name in names}
        | _make_identity(metadata.get(_get_account(bundle.key))),
        folder=bundle.folder,
    )


def _make_identity(host: str | None) -> dict[str, str]:
    """Return the variables with which google-auth finds the account's tokens."""
    return {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host} if host else {}


def _get_account(key: str) -> str:
    """Return the service account of a function."""
    return f"carrel-{key}"


def _make_service(bundle: Bundle, host: str, process: ServerProcess) -> Service:
    """Return the service of a function, with the invokers that `infra/terraform` grants."""
    invoker = SCHEDULER if bundle.kind == "job" else _get_account(GATEWAY)
    return Service(
        url=f"https://{host}", function=process.url, invokers=(invoker,), seconds=bundle.seconds
    )


def _start_front_end(
    stack: ExitStack, plan: Plan, sockets: Sequence[socket], log: Path | None
) -> None:
    """Run the fake Cloud Run until the stack is closed.

    Raises:
        StartError: The fake Cloud Run ended, or took too long to listen.
    """
    command = [sys.executable, "-P", "-m", "tests.support.cloud_run.server"]
    environment = {name: os.environ[name] for name in _MACHINE_VARIABLES if name in os.environ}
    environment["PYTHONPATH"] = str(ROOT)
    process = run(stack, command, environment=environment, folder=ROOT, sockets=sockets, log=log)
    if process.stdin:
        process.stdin.write(plan.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    deadline = time.monotonic() + START_SECONDS
    for listener in sockets:
        while not is_listening(format_address(listener)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise StartError("The fake Cloud Run did not start. Its output says why.")
            time.sleep(0.02)
