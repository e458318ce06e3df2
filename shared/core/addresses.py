"""Checks addresses in settings and of OAuth clients. No error message quotes an address."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""The hosts that refer to this machine, written as in a URL."""

_HOST_NAMES: Final = frozenset(host.strip("[]") for host in LOOPBACK_HOSTS)
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_ORIGIN: Final = re.compile(
    r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?/?", re.IGNORECASE | re.ASCII
)
_HOST: Final = re.compile(r"([a-z0-9_-][a-z0-9._-]*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
_ENDPOINT: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")


def is_loopback(url: SplitResult) -> bool:
    """Return whether a URL refers to this machine."""
    return url.hostname in _HOST_NAMES


def check_origin(name: str, address: str) -> None:
    """Check that an address consists of a scheme, a host and an optional port.

    Raises:
        ValueError: The address has another form, or is neither https nor on loopback.
    """
    if not _ORIGIN.fullmatch(address):
        raise ValueError(f"{name} must be https://host or https://host:port, with nothing after it")
    url = _split(name, address)
    _require_https(name, url)
    if url.netloc.endswith(_DEFAULT_PORTS[url.scheme]) or not _has_valid_port(url):
        raise ValueError(f"{name} must have a port from 1 to 65535, or none for the default port")


def check_host(name: str, host: str) -> None:
    """Check that a text is a host as the header `Host` has it: a name or address, maybe a port.

    Raises:
        ValueError: The text has another form.
    """
    if not _HOST.fullmatch(host):
        raise ValueError(f"{name} must be host or host:port in lower case, without wildcards")


def has_port(host: str) -> bool:
    """Return whether a host, as the header `Host` has it, names a port."""
    return ":" in host.rpartition("]")[2]


def check_endpoint(name: str, address: str) -> None:
    """Check that an address may be the base address of an API.

    Raises:
        ValueError: The address has another form, or is neither https nor on loopback.
    """
    if not _ENDPOINT.fullmatch(address):
        raise ValueError(f"{name} must be an address without a user, a query or a fragment")
    _require_https(name, _split(name, address))


def _require_https(name: str, url: SplitResult) -> None:
    if url.scheme != "https" and not is_loopback(url):
        raise ValueError(f"{name} must begin with https, except on loopback")


def _split(name: str, address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:  # its message may quote the address
        raise ValueError(f"{name} has a host that is neither a name nor an IP address") from None


def _has_valid_port(url: SplitResult) -> bool:
    try:
        return url.port != 0
    except ValueError:
        return False
