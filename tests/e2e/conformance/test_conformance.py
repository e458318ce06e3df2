"""The gateway passes the public conformance suite of the protocol."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.e2e.conformance.run import REVISIONS, run_all, serve_gateways
from tests.e2e.conformance.suite import Suite
from tests.support.npm import NotInstalled

pytestmark = pytest.mark.slow


@pytest.fixture
def suite() -> Suite:
    """The suite, installed from npm. Skip the test if it cannot be installed."""
    try:
        return Suite()
    except NotInstalled as error:
        pytest.skip(str(error))


def test_every_applicable_scenario_passes_at_both_revisions(suite: Suite, tmp_path: Path) -> None:
    project = f"conformance-{uuid.uuid4().hex[:16]}"
    with serve_gateways(project, tmp_path / "functions.log") as under_test:
        outcomes = run_all(suite, under_test)
    faults = {
        f"{name} at {revision}": outcome.faults
        for name, row in outcomes.items()
        for revision, outcome in zip(REVISIONS, row, strict=True)
        if outcome.faults
    }
    assert faults == {}
