"""Random requests have the same answers from the embedded Firestore and from Google's emulator."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest

from tests.emulator.embedded_firestore.deviations import DEVIATIONS
from tests.support.embedded_database import open_any_index
from tests.support.emulator import make_oracle_client
from tests.support.firestore_programs import PROGRAMS
from tests.support.firestore_requests import Sender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from google.cloud.firestore import AsyncClient

    from infra.local.embedded_firestore.databases import Databases
    from tests.support.firestore_requests import Request

pytestmark = pytest.mark.anyio

PROGRAM_COUNT: Final = 60
"""The number of random programs. They are the same in each run; slow runs choose others."""
SLOW_PROGRAM_COUNT: Final = 2_000
_PHASES: Final = (hypothesis.Phase.generate,)
"""A failure names the request that differs, so programs need not be shrunk, which takes minutes."""


@pytest.fixture(scope="module")
async def emulator() -> AsyncIterator[AsyncClient]:
    client = make_oracle_client("differential")
    yield client
    await client._firestore_api.transport.close()  # noqa: SLF001 - there is no public one


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with open_any_index(tmp_path_factory.mktemp("differential")) as databases:
        yield databases


async def compare(program: Sequence[Request], emulator: AsyncClient, databases: Databases) -> None:
    """Send a program to both databases until a known deviation, and compare the answers."""
    project = f"test-{uuid.uuid4().hex[:16]}"
    oracle = Sender(emulator._firestore_api, project)  # noqa: SLF001 - there is no public one
    tested = Sender(databases.make_client(project)._firestore_api, project)  # noqa: SLF001 - there is no public one
    for request in program:
        expected, actual = await oracle.send(request), await tested.send(request)
        if expected != actual and any(
            is_known(request, expected, actual, oracle.message) for is_known in DEVIATIONS.values()
        ):
            return
        assert expected == actual, (request, oracle.message, tested.message)


@hypothesis.settings(max_examples=PROGRAM_COUNT, phases=_PHASES)
@hypothesis.given(program=PROGRAMS)
async def test_answers_as_the_emulator(
    program: Sequence[Request], emulator: AsyncClient, databases: Databases
) -> None:
    await compare(program, emulator, databases)


@pytest.mark.slow
@hypothesis.settings(max_examples=SLOW_PROGRAM_COUNT, phases=_PHASES)
@hypothesis.given(program=PROGRAMS)
async def test_answers_other_requests_as_the_emulator(
    program: Sequence[Request], emulator: AsyncClient, databases: Databases
) -> None:
    await compare(program, emulator, databases)
