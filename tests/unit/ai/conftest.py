"""Fixtures of the tests of embedders and generators."""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_cached_tls_context: Final = cache(ssl.create_default_context)


@pytest.fixture(autouse=True, scope="package")
def one_tls_context() -> Iterator[None]:
    """Let all clients share one TLS context, since making one reads all certificates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", _cached_tls_context)
        yield
