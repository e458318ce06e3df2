"""Finds free ports."""

import socket


def find_free_port() -> int:
    """Return a port on which no program listens at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
