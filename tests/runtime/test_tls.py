"""Both sides of a call prove who they are, and use new files without a restart."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from perdure_runtime.certificates import LOOK_SECONDS, Certificates, TlsFiles
from perdure_runtime.config import load
from perdure_runtime.config_groups import PublicTlsConfig, TlsConfig
from perdure_runtime.errors import InvalidArgument, PerdureError, PermissionDenied, Unavailable
from perdure_runtime.fail_points import Registry
from perdure_runtime.rpc.client import RpcClient
from perdure_runtime.rpc.server import RpcServer
from perdure_runtime.rpc.tls import name_of
from perdure_testkit.authority import Authority, serial_of
from perdure_testkit.echo import SERVICE, Echo
from prometheus_client import REGISTRY

PEERS = ("ingest", "worker")
POINTS = Registry()
SEND = POINTS.declare("tests.tls_send")

Logged = Callable[[str], list[dict[str, Any]]]


class Clock:
    """Instants that a test chooses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self) -> None:
        """Let so much time pass that files are looked at again."""
        self.now += LOOK_SECONDS


async def who(_: bytes, context: Any) -> bytes:
    """Answer with the certificate that the caller proved itself with."""
    (pem,) = context.auth_context().get("x509_pem_cert", (b"",))
    return bytes(pem)


async def serve(echo: Echo, files: TlsFiles, clock: Clock | None = None) -> RpcServer:
    certificates = Certificates(files, "services", now=clock or Clock())
    return await echo.serve(
        {"Who": who}, address="127.0.0.1:0", certificates=certificates, peers=PEERS
    )


def client(
    echo: Echo, server: RpcServer, files: TlsFiles | None, clock: Clock | None = None
) -> RpcClient:
    address = f"127.0.0.1:{server.port}"
    if files is None:
        return echo.client(address)
    certificates = Certificates(files, "services", now=clock or Clock())
    return echo.client(address, certificates=certificates)


async def ask(echo: Echo, asking: RpcClient) -> int:
    """Return the serial number of the certificate that the server saw."""
    method = echo.method(asking, "Who")
    pem = await asking.call(method, b"", timeout=5.0, fail_point=SEND)
    return serial_of(pem)


async def refused(echo: Echo, asking: RpcClient) -> PerdureError:
    method = echo.method(asking, "Who")
    with pytest.raises(PerdureError) as caught:
        await asking.call(method, b"", timeout=0.5, fail_point=SEND)
    return caught.value


def serial(files: TlsFiles) -> int:
    return serial_of(Path(files.certificate).read_bytes())


def issue_in_two_steps(authority: Authority, folder: Path) -> Callable[[], object]:
    """Replace the certificate, and return what replaces its key."""
    key = folder / "tls.key"
    before = key.read_bytes()
    authority.issue(folder, "worker")
    after = key.read_bytes()
    key.write_bytes(before)
    return lambda: key.write_bytes(after)


async def served_serial(server: RpcServer, files: TlsFiles) -> int:
    """Return the number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=files.authorities)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context, server_hostname=name_of("coordinator")
    )
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return serial_of(ssl.DER_cert_to_PEM_cert(shown).encode())


async def test_a_known_service_is_served_by_the_one_it_means(echo: Echo, tmp_path: Path) -> None:
    authority = Authority()
    server = await serve(echo, authority.issue(tmp_path / "coordinator", "coordinator"))
    files = authority.issue(tmp_path / "worker", "worker")
    assert await ask(echo, client(echo, server, files)) == serial(files)


async def test_what_another_authority_issued_is_refused_on_both_sides(
    echo: Echo, tmp_path: Path
) -> None:
    ours, theirs = Authority(), Authority()
    server = await serve(echo, ours.issue(tmp_path / "coordinator", "coordinator"))
    forged = theirs.issue(tmp_path / "forged", "worker", believed=ours.pem)
    assert isinstance(await refused(echo, client(echo, server, forged)), Unavailable)
    impostor = await serve(echo, theirs.issue(tmp_path / "other", "coordinator", believed=ours.pem))
    worker = ours.issue(tmp_path / "worker", "worker")
    assert isinstance(await refused(echo, client(echo, impostor, worker)), Unavailable)


async def test_without_a_certificate_nobody_gets_in(echo: Echo, tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path / "coordinator", "coordinator")
    server = await serve(echo, files)
    assert isinstance(await refused(echo, client(echo, server, None)), Unavailable)
    believing = grpc.ssl_channel_credentials(authority.pem)
    named = (("grpc.ssl_target_name_override", name_of("coordinator")),)
    async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", believing, named) as channel:
        method: Any = channel.unary_unary(f"/{SERVICE}/Who")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"", timeout=5.0)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_service_that_has_no_business_here_is_refused_by_its_name(
    echo: Echo, tmp_path: Path
) -> None:
    authority = Authority()
    server = await serve(echo, authority.issue(tmp_path / "coordinator", "coordinator"))
    relay = authority.issue(tmp_path / "relay", "relay")
    assert isinstance(await refused(echo, client(echo, server, relay)), PermissionDenied)


async def test_a_client_calls_nobody_but_the_service_that_it_means(
    echo: Echo, tmp_path: Path
) -> None:
    authority = Authority()
    server = await serve(echo, authority.issue(tmp_path / "ingest", "ingest"))
    worker = authority.issue(tmp_path / "worker", "worker")
    assert isinstance(await refused(echo, client(echo, server, worker)), Unavailable)


async def test_new_files_are_used_without_a_restart_and_no_call_fails(
    echo: Echo, tmp_path: Path
) -> None:
    """Authority, certificates and keys are replaced while calls go on."""
    old, new, clock = Authority("old"), Authority("new"), Clock()
    both = old.pem + new.pem
    files = old.issue(tmp_path / "coordinator", "coordinator", believed=both)
    mine = old.issue(tmp_path / "worker", "worker", believed=both)
    server = await serve(echo, files, clock)
    asking = client(echo, server, mine, clock)
    first_shown, first_mine = serial(files), serial(mine)
    seen: list[int] = []
    is_over = asyncio.Event()

    async def call_on() -> None:
        while not is_over.is_set():
            seen.append(await ask(echo, asking))

    calling = [asyncio.create_task(call_on()) for _ in range(4)]
    assert await served_serial(server, mine) == first_shown
    new.issue(tmp_path / "coordinator", "coordinator", believed=both)
    clock.pass_by()
    assert await served_serial(server, mine) == serial(files) != first_shown
    new.issue(tmp_path / "worker", "worker", believed=new.pem)
    clock.pass_by()
    assert await ask(echo, asking) == serial(mine) != first_mine
    is_over.set()
    await asyncio.gather(*calling)
    assert set(seen) <= {first_mine, serial(mine)}
    assert first_mine in seen


async def test_files_in_the_middle_of_their_replacement_are_passed_over(
    echo: Echo, tmp_path: Path, logged: Logged
) -> None:
    authority, clock = Authority(), Clock()
    server = await serve(echo, authority.issue(tmp_path / "coordinator", "coordinator"))
    mine = authority.issue(tmp_path / "worker", "worker")
    asking = client(echo, server, mine, clock)
    before = serial(mine)
    put_new_key = issue_in_two_steps(authority, tmp_path / "worker")
    clock.pass_by()
    assert await ask(echo, asking) == before
    assert [line["use"] for line in logged("certificates.unusable")] == ["services"]
    put_new_key()
    clock.pass_by()
    assert await ask(echo, asking) == serial(mine) != before
    assert len(logged("certificates.replaced")) == 1


async def test_a_public_port_asks_nobody_for_a_certificate(echo: Echo, tmp_path: Path) -> None:
    authority = Authority()
    certificates = Certificates(authority.issue_public(tmp_path), "public")
    server = await echo.serve({"Who": who}, address="127.0.0.1:0", certificates=certificates)
    believing = grpc.ssl_channel_credentials(authority.pem)
    async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", believing) as channel:
        method: Any = channel.unary_unary(f"/{SERVICE}/Who")
        assert await method(b"", timeout=5.0) == b""


def test_how_long_a_certificate_is_good_for_is_measured(tmp_path: Path) -> None:
    files = Authority().issue(tmp_path, "worker", lasting=timedelta(hours=2))
    Certificates(files, "measured")
    left = REGISTRY.get_sample_value("perdure_tls_certificate_seconds_left", {"use": "measured"})
    assert left is not None
    assert 7000 < left <= 7200


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
def test_a_file_that_is_no_certificate_or_key_is_refused_at_the_start(
    tmp_path: Path, broken: str
) -> None:
    files = Authority().issue(tmp_path, "worker")
    (tmp_path / broken).write_text("nonsense")
    with pytest.raises(InvalidArgument, match="cannot be used"):
        Certificates(files, "services")
    (tmp_path / broken).unlink()
    with pytest.raises(InvalidArgument, match="cannot be used"):
        Certificates(files, "services")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    one, other = (
        authority.issue(tmp_path / "a", "worker"),
        authority.issue(tmp_path / "b", "worker"),
    )
    mixed = TlsFiles(one.certificate, other.key, one.authorities)
    with pytest.raises(InvalidArgument, match="is not the key of"):
        Certificates(mixed, "services")


class Internal(TlsConfig):
    SERVICE = "internal"


class Public(PublicTlsConfig):
    SERVICE = "public"


def test_plain_text_is_what_holds_without_files() -> None:
    assert load(Internal, {}).certificates() is None
    assert load(Public, {}).public_certificates() is None


def test_some_files_without_the_others_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument) as caught:
        load(Internal, {"PERDURE_INTERNAL_TLS_CERT": "/tls.crt"})
    assert [one.field for one in caught.value.violations] == ["tls_ca", "tls_key"]
    with pytest.raises(InvalidArgument) as caught:
        load(Public, {"PERDURE_PUBLIC_PUBLIC_TLS_KEY": "/tls.key"})
    assert [one.field for one in caught.value.violations] == ["public_tls_cert"]


def test_files_are_looked_at_once_a_second_at_most(tmp_path: Path) -> None:
    authority, clock = Authority(), Clock()
    files = authority.issue(tmp_path, "worker")
    certificates = Certificates(files, "services", now=clock)
    first = certificates.current()
    authority.issue(tmp_path, "worker")
    assert certificates.current() is first
    clock.pass_by()
    assert certificates.current() is not first
    assert certificates.current().expires_at > time.time()
