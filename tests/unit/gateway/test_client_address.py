"""The client's address, which rate limits use, is read behind the trusted proxies."""

from __future__ import annotations

import pytest

from functions.gateway.auth.client_address import get_client_address


def resolve_address(forwarded_for: str | None, proxies: int, client: str = "10.0.0.9") -> str:
    """Return the address of a request with this X-Forwarded-For header, behind some proxies."""
    headers = [(b"x-forwarded-for", forwarded_for.encode())] if forwarded_for is not None else []
    return get_client_address({"type": "http", "headers": headers, "client": (client, 1)}, proxies)


def test_the_header_is_ignored_without_a_trusted_proxy() -> None:
    assert resolve_address("1.1.1.1", 0) == "10.0.0.9"


def test_only_the_entry_of_the_trusted_proxy_counts() -> None:
    assert resolve_address("1.1.1.1, 2.2.2.2, 3.3.3.3", 1) == "3.3.3.3"
    assert resolve_address("1.1.1.1, 2.2.2.2, 3.3.3.3", 2) == "2.2.2.2"


@pytest.mark.parametrize("forwarded_for", [None, "", "nonsense", "1.1.1.1, <script>"])
def test_request_that_bypasses_the_proxy_has_no_address(forwarded_for: str | None) -> None:
    assert resolve_address(forwarded_for, 1) == "unknown"


def test_a_header_with_too_few_entries_gives_no_address() -> None:
    assert resolve_address("1.1.1.1", 2) == "unknown"


def test_an_ipv6_address_counts_as_its_64_bit_network() -> None:
    addresses = {resolve_address(None, 0, f"2001:db8:1:2::{host:x}") for host in range(9)}
    assert addresses == {"2001:db8:1:2::/64"}


def test_an_ipv4_mapped_address_counts_as_ipv4() -> None:
    assert resolve_address(None, 0, "::ffff:1.2.3.4") == "1.2.3.4"


def test_connection_without_an_address_has_none() -> None:
    assert get_client_address({"type": "http", "headers": [], "client": None}, 0) == "unknown"
