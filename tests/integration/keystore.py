"""A certificate for servers of Java, and for those who are to trust them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from servers.java import java_home

QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")


def keystore(directory: Path) -> Path:
    """A Java keystore with a certificate of 127.0.0.1, and beside it `ca.pem` with the certificate alone."""
    store = directory / "keystore.jks"
    keytool = [str(java_home() / "bin" / "keytool"), *QUICK, "-keystore", str(store), "-storepass", "changeit"]
    pair = ["-genkeypair", "-alias", "m", "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=test"]
    names = ["-ext", "san=ip:127.0.0.1", "-validity", "2", "-keypass", "changeit"]
    subprocess.run([*keytool, *pair, *names], check=True, capture_output=True)
    exported = ["-exportcert", "-rfc", "-alias", "m", "-file", str(store.with_name("ca.pem"))]
    subprocess.run([*keytool, *exported], check=True, capture_output=True)
    return store


def key_as_pem(store: Path, password: str | None) -> Path:
    """A file beside a keystore with its key, encrypted where there is a password, and its certificate."""
    key, certificate, _ = pkcs12.load_key_and_certificates(store.read_bytes(), b"changeit")
    assert key is not None
    assert certificate is not None
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    file = store.with_name(f"key-{password}.pem")
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption) + certificate.public_bytes(Encoding.PEM)
    )
    return file
