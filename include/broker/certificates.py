"""The certificates of a broker on loopback: made once, kept in its folder as PEM."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from broker.identity import HOST, USER

_DAYS = timedelta(days=3650)
_A_CA = x509.BasicConstraints(ca=True, path_length=0)
_LOOPBACK = x509.SubjectAlternativeName(
    [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
)


class Certificates:
    """Paths of PEM files: `ca` signed those of the server and of a client, `other_ca` nothing.

    `server` holds key and certificate, as Kafka takes a key store of type PEM.
    """

    def __init__(self, folder: Path) -> None:
        self.ca, self.other_ca = folder / "ca.pem", folder / "other_ca.pem"
        self.server = folder / "server.pem"
        self.client, self.client_key = folder / "client.pem", folder / "client_key.pem"
        if not self.other_ca.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make()

    def _make(self) -> None:
        key, name = _new_key(), _name("a CA for tests")
        _write(self.ca, _signed(name, key, name, key, _A_CA))
        server = _new_key()
        certificate = _signed(_name(HOST), server, name, key, _LOOPBACK)
        _write(self.server, _pem_of(server) + certificate)
        client = _new_key()
        _write(self.client_key, _pem_of(client))
        _write(self.client, _signed(_name(USER), client, name, key, None))
        other, others_name = _new_key(), _name("another CA for tests")
        _write(self.other_ca, _signed(others_name, other, others_name, other, _A_CA))


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _signed(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType | None,
) -> bytes:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer, name, key.public_key(), x509.random_serial_number(), now - _DAYS, now + _DAYS
    )
    if extension is not None:
        builder = builder.add_extension(extension, critical=extension is _A_CA)
    return builder.sign(by, hashes.SHA256()).public_bytes(Encoding.PEM)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, pem: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(pem)
