"""Whom a worker believes at the other end of a TLS connection."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path

import certifi
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason


def authorities(ca_file: str) -> bytes:
    """Return the certificates of the public authorities, and those of `ca_file` if it is given.

    Raises InvalidArgument for a file that cannot be read or holds no certificate.
    """
    public = Path(certifi.where()).read_bytes()
    if not ca_file:
        return public
    try:
        own = Path(ca_file).read_bytes()
        ssl.create_default_context(cadata=own.decode("ascii"))
    except (OSError, ValueError, ssl.SSLError) as error:
        problem = f"holds no certificates in PEM: {error}"
        raise InvalidArgument(
            f"egress_ca_file {problem}",
            reason=Reason.CONFIG_INVALID,
            violations=[FieldViolation("egress_ca_file", problem)],
        ) from error
    return public + b"\n" + own


@lru_cache(maxsize=1)
def tls_context(pem: bytes) -> ssl.SSLContext:
    """Return what checks certificate and name of every server against these authorities.

    It is shared: to read the public ones takes longer than all else that a worker starts with.
    """
    return ssl.create_default_context(cadata=pem.decode("ascii", "ignore"))
