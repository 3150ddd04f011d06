"""`perdure.v1.KeyService`, `MemberService` and `AuditService`; each method delegates."""

from __future__ import annotations

from perdure_contracts.v1 import audit_service_pb2, key_service_pb2, member_service_pb2
from perdure_contracts.v1.audit_service_pb2_grpc import AuditServiceServicer
from perdure_contracts.v1.key_service_pb2_grpc import KeyServiceServicer
from perdure_contracts.v1.member_service_pb2_grpc import MemberServiceServicer
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.audit import list_audit, list_installation_audit
from perdure_ingest.handlers.keys import create_key, list_keys, revoke_key, rotate_key
from perdure_ingest.handlers.members import list_members, put_member, remove_member


class KeyServicer(KeyServiceServicer):
    """The doors to API keys."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def CreateKey(
        self, request: key_service_pb2.CreateKeyRequest, context: Context
    ) -> key_service_pb2.CreateKeyResponse:
        """Delegate."""
        return await create_key(self._doors, self._identify(context), request)

    async def ListKeys(
        self, request: key_service_pb2.ListKeysRequest, context: Context
    ) -> key_service_pb2.ListKeysResponse:
        """Delegate."""
        return await list_keys(self._doors, self._identify(context), request)

    async def RotateKey(
        self, request: key_service_pb2.RotateKeyRequest, context: Context
    ) -> key_service_pb2.RotateKeyResponse:
        """Delegate."""
        return await rotate_key(self._doors, self._identify(context), request)

    async def RevokeKey(
        self, request: key_service_pb2.RevokeKeyRequest, context: Context
    ) -> key_service_pb2.RevokeKeyResponse:
        """Delegate."""
        return await revoke_key(self._doors, self._identify(context), request)


class MemberServicer(MemberServiceServicer):
    """The doors to members."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PutMember(
        self, request: member_service_pb2.PutMemberRequest, context: Context
    ) -> member_service_pb2.PutMemberResponse:
        """Delegate."""
        return await put_member(self._doors, self._identify(context), request)

    async def ListMembers(
        self, request: member_service_pb2.ListMembersRequest, context: Context
    ) -> member_service_pb2.ListMembersResponse:
        """Delegate."""
        return await list_members(self._doors, self._identify(context), request)

    async def RemoveMember(
        self, request: member_service_pb2.RemoveMemberRequest, context: Context
    ) -> member_service_pb2.RemoveMemberResponse:
        """Delegate."""
        return await remove_member(self._doors, self._identify(context), request)


class AuditServicer(AuditServiceServicer):
    """The doors to the audit log."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def ListAudit(
        self, request: audit_service_pb2.ListAuditRequest, context: Context
    ) -> audit_service_pb2.ListAuditResponse:
        """Delegate."""
        return await list_audit(self._doors, self._identify(context), request)

    async def ListInstallationAudit(
        self, request: audit_service_pb2.ListInstallationAuditRequest, context: Context
    ) -> audit_service_pb2.ListInstallationAuditResponse:
        """Delegate."""
        self._identify(context)
        return await list_installation_audit(self._doors, request)
