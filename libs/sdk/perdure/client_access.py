"""Who may knock: keys and members of the org, and who did what."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    key_service_pb2,
    key_service_pb2_grpc,
    member_service_pb2,
    member_service_pb2_grpc,
)

from perdure.client_transport import Transport


class Keys:
    """A client's calls about API keys. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = key_service_pb2_grpc.KeyServiceStub(transport.channel)

    async def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        scopes: Sequence[str] = (),
        member: str = "",
        lasts: timedelta | None = None,
        rate: float = 0.0,
        burst: int = 0,
    ) -> key_service_pb2.CreateKeyResponse:
        """Make a key and return it with its secret, which is told this once.

        It may do nothing that the caller's key may not. `rate` is calls a second; 0 is what the
        door is set to.
        """
        request = key_service_pb2.CreateKeyRequest(
            name=name,
            roles=roles,
            scopes=scopes,
            member=member,
            lasts=_duration(lasts),
            rate=rate,
            burst=burst,
        )
        return await self._transport.call(self._stub.CreateKey, request)

    async def list(
        self, *, with_revoked: bool = False
    ) -> AsyncGenerator[key_service_pb2.ApiKey, None]:
        """Yield the keys by id."""
        request = key_service_pb2.ListKeysRequest(with_revoked=with_revoked)
        while True:
            page = await self._transport.call(self._stub.ListKeys, request)
            for key in page.keys:
                yield key
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def rotate(
        self, name: str, overlap: timedelta | None = None
    ) -> key_service_pb2.RotateKeyResponse:
        """Give a key another secret, told this once; what it had goes on for `overlap`, a day."""
        request = key_service_pb2.RotateKeyRequest(name=name, overlap=_duration(overlap))
        return await self._transport.call(self._stub.RotateKey, request)

    async def revoke(self, name: str, reason: str = "") -> None:
        """End a key; every door refuses it within seconds."""
        request = key_service_pb2.RevokeKeyRequest(name=name, reason=reason)
        await self._transport.call(self._stub.RevokeKey, request)


class Members:
    """A client's calls about members. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = member_service_pb2_grpc.MemberServiceStub(transport.channel)

    async def put(self, member: str, roles: Sequence[str]) -> member_service_pb2.Member:
        """Make a member or change its roles; its keys follow within seconds."""
        request = member_service_pb2.PutMemberRequest(member=member, roles=roles)
        return (await self._transport.call(self._stub.PutMember, request)).member

    async def list(self) -> AsyncGenerator[member_service_pb2.Member, None]:
        """Yield the members by name."""
        request = member_service_pb2.ListMembersRequest()
        while True:
            page = await self._transport.call(self._stub.ListMembers, request)
            for member in page.members:
                yield member
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def remove(self, member: str, reason: str = "") -> None:
        """Remove a member and revoke its keys."""
        request = member_service_pb2.RemoveMemberRequest(member=member, reason=reason)
        await self._transport.call(self._stub.RemoveMember, request)


class AuditLog:
    """A client's calls about the audit log. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = audit_service_pb2_grpc.AuditServiceStub(transport.channel)

    async def entries(
        self, *, action: str = "", target: str = ""
    ) -> AsyncGenerator[audit_service_pb2.AuditEntry, None]:
        """Yield what was done for the org, newest first; empty filters match all."""
        request = audit_service_pb2.ListAuditRequest(action=action, target=target)
        while True:
            page = await self._transport.call(self._stub.ListAudit, request)
            for entry in page.entries:
                yield entry
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def of_installation(
        self, *, action: str = "", target: str = ""
    ) -> AsyncGenerator[audit_service_pb2.AuditEntry, None]:
        """Yield what was done to what all orgs share, newest first."""
        request = audit_service_pb2.ListInstallationAuditRequest(action=action, target=target)
        while True:
            page = await self._transport.call(self._stub.ListInstallationAudit, request)
            for entry in page.entries:
                yield entry
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def _duration(length: timedelta | None) -> Duration | None:
    if length is None:
        return None
    message = Duration()
    message.FromTimedelta(length)
    return message
