"""Make a Java trust store from a PEM file: `python trust_store.py CA.pem STORE.p12`.

Run by the Python of .venv, whose `cryptography` does it in a moment; the JDK's keytool takes one
certificate a call. `changeit` is Java's customary password for what is no secret.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12


def main(pem: Path, store: Path) -> None:
    found = x509.load_pem_x509_certificates(pem.read_bytes())
    named = [pkcs12.PKCS12Certificate(ca, f"ca{n}".encode()) for n, ca in enumerate(found)]
    secret = BestAvailableEncryption(b"changeit")
    store.write_bytes(pkcs12.serialize_java_truststore(named, secret))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
