"""An authority of a test's own, and servers that prove their names with it."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    """Signs certificates; whoever believes `file` believes them."""

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self.file = directory / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def server(self, *names: str) -> ssl.SSLContext:
        """Return what a server of these names, or addresses, serves with."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*names).configure_cert(context)
        return context

    def pem(self, *names: str) -> tuple[bytes, bytes]:
        """Return key and certificates of a server of these names, for gRPC."""
        issued = self._authority.issue_cert(*names)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return issued.private_key_pem.bytes(), chain
