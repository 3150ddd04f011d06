"""Certificates of this process and those it believes, from files that may change at any time.

The files are looked at when they are needed, at most once a second. Files that do not fit together,
as in the middle of their replacement, are passed over: what was read before goes on.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_runtime.logs import log, log_failure
from perdure_runtime.metrics import gauge

LOOK_SECONDS = 1.0
"""Files that were looked at less long ago are taken to be unchanged."""

SECONDS_LEFT = gauge(
    "tls_certificate_seconds_left",
    "Until a certificate of this process expires; negative: it has.",
    ("use",),
)

_logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of files in PEM: the certificate with those between it and an authority, its key, and
    the authorities that peers' certificates must come from; without, peers need none.
    """

    certificate: str
    key: str
    authorities: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """All that are given."""
        return tuple(filter(None, (self.certificate, self.key, self.authorities)))


@dataclass(frozen=True, slots=True)
class Material:
    """What the files held at one moment; `expires_at` is seconds since 1970, by this machine."""

    certificate: bytes
    key: bytes
    authorities: bytes
    expires_at: float


class Certificates:
    """The newest of some files; may be asked from any thread.

    `use` says in metrics what they are for. Raises InvalidArgument, CONFIG_INVALID, for files that
    cannot be read or do not fit together.
    """

    def __init__(
        self, files: TlsFiles, use: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.files = files
        self._use = use
        self._now = now
        self._lock = threading.Lock()
        self._seen = _signature(files)
        self._material = _load(files)
        self._looked_at = now()
        SECONDS_LEFT.labels(use).set_function(self._seconds_left)

    def current(self) -> Material:
        """Return what the files hold; equal to the answer before unless they changed."""
        with self._lock:
            if self._now() - self._looked_at >= LOOK_SECONDS:
                self._looked_at = self._now()
                self._look()
            return self._material

    def _look(self) -> None:
        try:
            seen = _signature(self.files)
            if seen == self._seen:
                return
            self._material = _load(self.files)
            self._seen = seen
        except InvalidArgument as error:
            log_failure(_logger, "certificates.unusable", error, use=self._use)
            return
        log(_logger, "certificates.replaced", use=self._use, seconds_left=self._seconds_left())

    def _seconds_left(self) -> float:
        return self._material.expires_at - time.time()


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """Return the context of a port that asks nobody for a certificate; each connection that begins
    is shown the newest.
    """
    first = certificates.current()
    newest: list[tuple[Material, ssl.SSLContext]] = [(first, _context(first))]

    def choose(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        found = certificates.current()
        if found != newest[0][0]:
            newest[0] = (found, _context(found))
        connection.context = newest[0][1]

    base = _context(first)
    base.sni_callback = choose  # called for each connection, with a name or without
    return base


def _context(material: Material) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The module reads files alone; these are gone before anybody else could look.
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("tls.crt", "tls.key")]
        for path, content in zip(paths, (material.certificate, material.key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        context.load_cert_chain(*map(str, paths))
    context.set_alpn_protocols(["http/1.1"])
    return context


def _signature(files: TlsFiles) -> _Signature:
    """Return what changes whenever a file does."""
    try:
        found = [os.stat(path) for path in files.paths]
    except OSError as error:
        raise _unusable(str(error)) from error
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def _load(files: TlsFiles) -> Material:
    try:
        certificate, key = _read(files.certificate), _read(files.key)
        authorities = _read(files.authorities) if files.authorities else b""
        leaf = x509.load_pem_x509_certificates(certificate)[0]
        private = load_pem_private_key(key, password=None)
        fits = private.public_key() == leaf.public_key()
        if authorities:
            x509.load_pem_x509_certificates(authorities)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(str(error)) from error
    if not fits:
        raise _unusable(f"{files.key} is not the key of {files.certificate}")
    return Material(certificate, key, authorities, leaf.not_valid_after_utc.timestamp())


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _unusable(why: str) -> InvalidArgument:
    problem = f"certificate, key or authorities cannot be used: {why}"
    return InvalidArgument(
        f"what: {problem}\n"
        "where: the files that PERDURE_<SERVICE>_TLS_CERT, _TLS_KEY and _TLS_CA name\n"
        "do this: put certificate, key and authorities that belong together there, in PEM",
        reason=Reason.CONFIG_INVALID,
        violations=[FieldViolation("tls_cert", problem)],
    )
