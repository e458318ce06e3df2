"""A certificate for the loopback address. The key of its issuer is discarded immediately."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates of a server and its clients, as PEM.

    Attributes:
        server: The server's key and certificate.
        trusted: The authorities that clients trust: this machine's, and the server's.
    """

    server: str
    trusted: str


def make_certificates() -> Certificates:
    """Make certificates that are valid for ten years, and discard the authority's key."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Carrel on this machine")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    authority = (
        _make_builder(issuer, issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _make_builder(subject, issuer, server_key.public_key())
        .add_extension(addresses, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem, no_encryption = serialization.Encoding.PEM, serialization.NoEncryption()
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, no_encryption).decode()
    machine_authorities = Path(os.environ.get("SSL_CERT_FILE") or certifi.where()).read_text(
        "utf-8"
    )
    return Certificates(
        server=key + certificate.public_bytes(pem).decode(),
        trusted=f"{machine_authorities}\n{authority.public_bytes(pem).decode()}",
    )


def _make_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
    )
