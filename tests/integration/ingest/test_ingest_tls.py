"""The public ports with a certificate: gRPC and HTTPS, and a new one without a restart."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from perdure import Client, PerdureUnavailable
from perdure_ingest.app import Ingest
from perdure_runtime.certificates import LOOK_SECONDS
from perdure_testkit.authority import Authority, serial_of
from perdure_testkit.waiting import eventually


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def config_changes(authority: Authority, tmp_path: Path) -> dict[str, Any]:
    files = authority.issue_public(tmp_path / "public")
    return {"public_tls_cert": files.certificate, "public_tls_key": files.key}


@pytest.fixture
def believed(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "authorities.pem"
    file.write_bytes(authority.pem)
    monkeypatch.setenv("PERDURE_CA_FILE", str(file))
    return file


async def shown(ingest: Ingest, believed: Path) -> int:
    """Return the number of the certificate that the HTTPS port shows, after one request."""
    context = ssl.create_default_context(cafile=believed)
    reader, writer = await asyncio.open_connection("127.0.0.1", ingest.http.port, ssl=context)
    writer.write(b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head = await reader.readline()
    assert head.startswith(b"HTTP/1.1 "), head
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return serial_of(ssl.DER_cert_to_PEM_cert(found).encode())


async def test_a_client_believes_the_authority_that_it_is_told(
    ingest: Ingest, api_key: str, believed: Path
) -> None:
    address = f"https://127.0.0.1:{ingest.server.port}"
    async with Client(address, timeout=5.0, api_key=api_key) as client:
        assert [each async for each in client.connections.list()] == []


async def test_a_client_that_is_told_nothing_does_not_believe_it(ingest: Ingest) -> None:
    secure = Client(f"https://127.0.0.1:{ingest.server.port}", timeout=1.0, attempts=1)
    plain = Client(f"127.0.0.1:{ingest.server.port}", timeout=1.0, attempts=1)
    for refused in (secure, plain):
        async with refused as client:
            with pytest.raises(PerdureUnavailable):
                await anext(aiter(client.connections.list()))


async def test_https_shows_a_new_certificate_without_a_restart(
    ingest: Ingest, authority: Authority, believed: Path, tmp_path: Path
) -> None:
    first = await shown(ingest, believed)
    authority.issue_public(tmp_path / "public")

    async def is_new() -> bool:
        return await shown(ingest, believed) != first

    await eventually(is_new, within=10 * LOOK_SECONDS, what="the new certificate is shown")
