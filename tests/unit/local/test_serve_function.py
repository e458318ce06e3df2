"""A function that is served on this machine keeps idle connections open."""

from __future__ import annotations

from starlette.applications import Starlette

from infra.local.serve_function import make_server


def test_an_idle_connection_stays_open_for_75_seconds() -> None:
    assert make_server(Starlette()).config.timeout_keep_alive == 75
