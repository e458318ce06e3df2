"""The client's address, which rate limits use, is read behind the trusted proxies."""

import pytest

from functions.gateway.auth.client_address import get_client_address


def resolve_address(forwarded_for: str | None, proxies: int, client: str = "10.0.0.9") -> str:
    """Return the address of a request with this X-Forwarded-For header, behind some proxies."""
    headers = [(b"x-forwarded-for", forwarded_for.encode())] if forwarded_for is not None else []
    return get_client_address({"type": "http", "headers": headers, "client": (client, 1)}, proxies)


@pytest.mark.parametrize(
    ("forwarded_for", "proxies", "address"),
    [
        ("1.1.1.1", 0, "10.0.0.9"),
        ("1.1.1.1, 2.2.2.2, 3.3.3.3", 1, "3.3.3.3"),
        ("1.1.1.1, 2.2.2.2, 3.3.3.3", 2, "2.2.2.2"),
        ("1.1.1.1", 2, "unknown"),
        (None, 1, "unknown"),  # a request that bypasses the proxy
        ("", 1, "unknown"),
        ("1.1.1.1, <script>", 1, "unknown"),
    ],
)
def test_only_the_entry_of_the_trusted_proxy_counts(
    forwarded_for: str | None, proxies: int, address: str
) -> None:
    assert resolve_address(forwarded_for, proxies) == address


def test_an_ipv6_address_counts_as_its_64_bit_network() -> None:
    addresses = {resolve_address(None, 0, f"2001:db8:1:2::{host:x}") for host in range(9)}
    assert addresses == {"2001:db8:1:2::/64"}
    assert resolve_address(None, 0, "::ffff:1.2.3.4") == "1.2.3.4"
    assert get_client_address({"type": "http", "headers": [], "client": None}, 0) == "unknown"
