"""The coordinator's port with certificates: which services it serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from perdure_contracts.internal.v1.control_service_pb2 import ListLanesRequest, ListLanesResponse
from perdure_contracts.internal.v1.control_service_pb2_grpc import ControlServiceStub
from perdure_contracts.internal.v1.key_service_pb2 import (
    CheckKeyRequest,
    KeySecret,
    NoteKeyUseRequest,
    RevokeKeyRequest,
)
from perdure_contracts.internal.v1.key_service_pb2_grpc import KeyServiceStub
from perdure_runtime.certificates import Certificates
from perdure_runtime.errors import PermissionDenied, Unauthenticated, Unavailable
from perdure_runtime.fail_points import Registry
from perdure_runtime.rpc.client import RpcClient, open_channel
from perdure_testkit.authority import Authority

SEND = Registry().declare("tests.coordinator_tls")

Serve = Callable[..., Awaitable[tuple[Any, str]]]


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def address(serve: Serve, authority: Authority, tmp_path: Path) -> str:
    files = authority.issue(tmp_path / "coordinator", "coordinator")
    _, address = await serve(
        tls_cert=files.certificate, tls_key=files.key, tls_ca=files.authorities
    )
    return address


async def list_lanes(address: str, certificates: Certificates | None) -> ListLanesResponse:
    client = RpcClient(open_channel(address, certificates=certificates))
    try:
        stub = ControlServiceStub(client.channel)
        return await client.call(stub.ListLanes, ListLanesRequest(), timeout=2.0, fail_point=SEND)
    finally:
        await client.stop()


async def ask(address: str, certificates: Certificates, method: str, request: Any) -> None:
    """Call a method of the service of keys."""
    client = RpcClient(open_channel(address, certificates=certificates))
    try:
        call = getattr(KeyServiceStub(client.channel), method)
        await client.call(call, request, timeout=2.0, fail_point=SEND)
    finally:
        await client.stop()


@pytest.mark.parametrize("service", ["ingest", "worker", "timer", "sweeper", "keda"])
async def test_the_coordinator_serves_the_services_that_call_it(
    address: str, authority: Authority, tmp_path: Path, service: str
) -> None:
    files = authority.issue(tmp_path / service, service)
    lanes = await list_lanes(address, Certificates(files, "services"))
    assert {lane.lane for lane in lanes.lanes} == {"io", "slow"}


async def test_the_coordinator_serves_nobody_else(
    address: str, authority: Authority, tmp_path: Path
) -> None:
    relay = Certificates(authority.issue(tmp_path / "relay", "relay"), "services")
    with pytest.raises(PermissionDenied):
        await list_lanes(address, relay)
    forged = Authority().issue(tmp_path / "forged", "worker", believed=authority.pem)
    with pytest.raises(Unavailable):
        await list_lanes(address, Certificates(forged, "services"))
    with pytest.raises(Unavailable):
        await list_lanes(address, None)


@pytest.mark.parametrize("service", ["worker", "timer", "sweeper", "keda"])
async def test_only_ingest_makes_keys(
    address: str, authority: Authority, tmp_path: Path, service: str
) -> None:
    revoke = RevokeKeyRequest(org="default", key_id="nobody-s", asked_by="tests")
    own = Certificates(authority.issue(tmp_path / "ingest", "ingest"), "services")
    await ask(address, own, "RevokeKey", revoke)
    other = Certificates(authority.issue(tmp_path / service, service), "services")
    with pytest.raises(PermissionDenied):
        await ask(address, other, "RevokeKey", revoke)


@pytest.mark.parametrize("service", ["ingest", "worker", "timer", "sweeper", "keda"])
async def test_whoever_has_a_door_may_ask_about_keys_and_nobody_else(
    address: str, authority: Authority, tmp_path: Path, service: str
) -> None:
    own = Certificates(authority.issue(tmp_path / service, service), "services")
    refusal = Unauthenticated if service in ("ingest", "worker") else PermissionDenied
    question = CheckKeyRequest(secret=KeySecret(prefix="unknown", digest=bytes(32)))
    with pytest.raises(refusal):
        await ask(address, own, "CheckKey", question)
    with nullcontext() if refusal is Unauthenticated else pytest.raises(refusal):
        await ask(address, own, "NoteKeyUse", NoteKeyUseRequest())
