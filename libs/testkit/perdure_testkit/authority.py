"""Certificates for tests: an authority that is made in a moment, and what it issues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from perdure_runtime.certificates import TlsFiles
from perdure_runtime.rpc.tls import name_of


class Authority:
    """Issues certificates; a new one is believed by nobody who knows another."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            _begun(self._name, self._name, self._key.public_key(), timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        folder: Path,
        service: str,
        *,
        believed: bytes | None = None,
        lasting: timedelta = timedelta(days=1),
    ) -> TlsFiles:
        """Write, or replace, the files of a service; it believes this one, or `believed`."""
        certificate, key = self._issued([x509.DNSName(name_of(service))], lasting)
        return _written(folder, certificate, key, self.pem if believed is None else believed)

    def issue_public(self, folder: Path, host: str = "127.0.0.1") -> TlsFiles:
        """Write the files of a port that asks nobody for a certificate."""
        certificate, key = self._issued([x509.IPAddress(ip_address(host))], timedelta(days=1))
        return _written(folder, certificate, key, b"")

    def _issued(self, names: list[x509.GeneralName], lasting: timedelta) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _begun(_name("perdure"), self._name, key.public_key(), lasting)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), plain


def serial_of(pem: bytes) -> int:
    """Return the number that an authority gave a certificate."""
    return x509.load_pem_x509_certificate(pem).serial_number


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lasting: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + lasting)
    )


def _written(folder: Path, certificate: bytes, key: bytes, authorities: bytes) -> TlsFiles:
    folder.mkdir(parents=True, exist_ok=True)
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authorities}
    for name, content in files.items():
        draft = folder / f"{name}.new"
        draft.write_bytes(content)
        draft.rename(folder / name)
    ca = str(folder / "ca.crt") if authorities else ""
    return TlsFiles(str(folder / "tls.crt"), str(folder / "tls.key"), ca)
