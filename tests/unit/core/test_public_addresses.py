"""Only public addresses, and URLs of public hosts, are accepted from a stranger."""

import contextlib
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import is_public, require_public_endpoints, resolve_public

PUBLIC_ADDRESSES = """
    1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 126.255.255.255 172.15.255.255 172.32.0.0
    191.255.255.255 192.0.1.0 198.17.255.255 223.255.255.255 2001:200::1 2606:4700:4700::1111
    2a00:1450:4001:82a::200e 64:ff9b::8.8.8.8
"""
NON_PUBLIC_ADDRESSES = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1
    192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
    240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:8.8.8.8
    ::ffff:0:8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254
    64:ff9b::100.64.0.1 64:ff9b:1::8.8.8.8 100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
    2001:2::1 2001:10::1 2001:db8::1 2002:7f00:1:: 2002:a00:1::1 2002:808:808:: 3fff::1 5f00::1
    fc00::1 fd00:ec2::254 fe80::1 fe80::1%1 2606:4700:4700::1111%1 fec0::1 ff02::1
    localhost 2130706433 0x7f000001 127.1
"""
INVALID_URLS = """
    http://client.example/c https://client.example https://client.example#x
    https://client.example/c#x https://client.example/c# https://user@client.example/c
    https://user:pass@client.example/c https://@client.example/c https://client.example:8443/c
    https://client.example:0443/c https://client.example:/c https://client.example/a/./c
    https://client.example/a/../c https://client.example/.. https://client.example/.
    https://client.example/a/%2e%2E/c https://client.example/a/.%2e https://127.0.0.1/c
    https://2130706433/c https://0x7f.1/c https://127.0.0.0x1/c https://[::1]/c
    https://localhost/c https://intranet/c https://client.example./c https://.example/c
    https://-client.example/c https://client_a.example/c
    https://c\N{LATIN SMALL LETTER LONG S}.example/c https://\N{KELVIN SIGN}.example/c https://client.example/caf\u00e9
    https://client.example\\@evil.example/c https://client.example/c%2 https://client.example/c%zz
    https:/client.example/c //client.example/c
"""
INVALID_LINKS = """
    https://user@client.example/ https://user:pass@client.example/ https://@client.example/
    https://client.example:8443/ http://client.example:443/ https://client.example:99999/
    https://127.0.0.1/ http://2130706433/ http://[::1]/ http://[::ffff:10.0.0.1]/
    http://localhost/ http://metadata/ file:///etc/passwd ftp://client.example/
    gopher://client.example/ javascript:alert(1) https://client.example/a/%2e%2e/b
    client.example/page https://[client.example/ https://..example/
"""
TOO_LONG = f"https://client.example/{'a' * 2000}"


def test_internet_addresses_are_public() -> None:
    assert not [address for address in PUBLIC_ADDRESSES.split() if not is_public(address)]


@pytest.mark.parametrize("address", ["", *NON_PUBLIC_ADDRESSES.split()])
def test_a_special_or_invalid_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_decides_whether_it_is_public(inner: IPv4Address) -> None:
    """The prefix 64:ff9b:: embeds an IPv4 address, as NAT64 does; ::ffff: maps one."""
    assert is_public(str(inner)) == is_public(f"64:ff9b::{inner}")
    assert not is_public(f"::ffff:{inner}")
    assert inner.is_global or not is_public(str(inner))


@given(st.ip_addresses(v=6))
def test_special_addresses_are_not_public(address: IPv6Address) -> None:
    text = str(address)
    if not text.startswith("64:ff9b:"):
        assert address.is_global or not is_public(text)


def test_a_host_needs_addresses_and_public_ones_only() -> None:
    with pytest.raises(DocumentRejected, match="address_not_public"):
        require_public_endpoints(["8.8.8.8", "10.0.0.1", "1.1.1.1"], 443)
    with pytest.raises(DocumentRejected, match="host_unknown"):
        require_public_endpoints([], 443)


def test_each_address_is_tried_once_ipv4_first() -> None:
    endpoints = require_public_endpoints(
        ["2606:4700::1", "8.8.8.8", "2606:4700::1", "1.1.1.1"], 443
    )
    assert endpoints == [("8.8.8.8", 443), ("1.1.1.1", 443), ("2606:4700::1", 443)]
    authorities = [endpoint.authority for endpoint in endpoints]
    assert authorities == ["8.8.8.8:443", "1.1.1.1:443", "[2606:4700::1]:443"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("localhost", "address_not_public"), ("nobody.invalid", "host_unknown")],
)
async def test_a_name_is_resolved_to_public_addresses_only(name: str, reason: str) -> None:
    with pytest.raises(DocumentRejected, match=reason):
        await resolve_public(name, 443)


@pytest.mark.parametrize(
    "text",
    [
        *INVALID_URLS.split(),
        "https://client.example/c d",
        "https://client.example/c\n",
        " https://client.example/c",
        f"https://{'a' * 64}.example/c",
        f"https://{'a.' * 130}example/c",
        TOO_LONG,
        "",
    ],
)
def test_a_url_with_an_unusual_part_is_refused(text: str) -> None:
    with pytest.raises(DocumentRejected, match="url"):
        PublicUrl.parse(text)


def test_url_is_parsed_into_host_and_target() -> None:
    url = PublicUrl.parse("https://Client.Example:443/a/..b/c.json?v=1")
    assert url.host == "client.example"
    assert url.target == "/a/..b/c.json?v=1"
    assert PublicUrl.parse("https://xn--bcher-kva.example/").target == "/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://client.example", "https://client.example/"),
        ("HTTP://Client.Example:80/a#part", "http://client.example/a"),
        ("https://client.example:443/a?b=c d", "https://client.example/a?b=c%20d"),
        ("https://client.example/a/../b/./c", "https://client.example/b/c"),
        ("https://client.example/caf\u00e9?q=\u00e9", "https://client.example/caf%C3%A9?q=%C3%A9"),
        ("https://b\u00fccher.example/100%", "https://xn--bcher-kva.example/100%25"),
        ("https://client.example/it's|[1]", "https://client.example/it%27s%7C%5B1%5D"),
        ("https://client.example//evil.example/x", "https://client.example//evil.example/x"),
    ],
)
def test_address_of_a_page_is_normalized(text: str, expected: str) -> None:
    url = PublicUrl.of_link(text)
    assert url.text == expected
    assert url.port == (443 if expected.startswith("https") else 80)
    assert PublicUrl.of_link(expected) == url


@pytest.mark.parametrize("text", [*INVALID_LINKS.split(), TOO_LONG, ""])
def test_an_address_that_is_not_a_public_page_is_refused(text: str) -> None:
    with pytest.raises(DocumentRejected, match="url"):
        PublicUrl.of_link(text)


@given(st.text())
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    with contextlib.suppress(DocumentRejected):
        url = PublicUrl.of_link(f"https://client.example/{text}")
        assert url.scheme == "https"
        assert url.port == 443
