"""Self-signed certificates for the TLS servers of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_certificate(path: Path, *names: str) -> Path:
    """Write a key and a self-signed certificate, which is valid for a day, as PEM.

    Args:
        path: The file to write, which is also returned. Clients trust it as an authority.
        names: The host names and IP addresses of the server; by default, the loopback address.
    """
    names = names or ("127.0.0.1",)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(map(_to_general_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, no_encryption = serialization.Encoding.PEM, serialization.NoEncryption()
    private_key = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, no_encryption)
    path.write_bytes(private_key + certificate.public_bytes(pem))
    return path


def _to_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
