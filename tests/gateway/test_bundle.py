"""What the gateway imports in a call, its extra has to install: its bundle holds nothing else."""

from __future__ import annotations

from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

IMPORTED_BY_ID_TOKENS = {"google-auth", "requests"}


def installed_with(name: str, *extras: str) -> set[str]:
    """The distributions that installing one of them brings, itself included."""
    found: set[tuple[str, tuple[str, ...]]] = set()
    waiting = {(name, extras)}
    while waiting:
        entry = waiting.pop()
        found.add(entry)
        waiting |= set(_needed_by(*entry)) - found
    return {canonicalize_name(each) for each, _ in found}


def _needed_by(name: str, extras: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    needed = [Requirement(line) for line in requires(name) or []]
    return [
        (each.name, tuple(sorted(each.extras)))
        for each in needed
        if not each.marker or any(each.marker.evaluate({"extra": one}) for one in ("", *extras))
    ]


def test_the_gateways_extra_installs_what_fetching_a_token_imports() -> None:
    assert set() == IMPORTED_BY_ID_TOKENS - installed_with("carrel", "gateway")
