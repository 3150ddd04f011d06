"""Keys, members and the audit log, as messages."""

from __future__ import annotations

from perdure_contracts.v1 import audit_service_pb2, key_service_pb2, member_service_pb2
from perdure_store.audit import AuditLine
from perdure_store.keys import ApiKey
from perdure_store.members import Member

from perdure_ingest.views.instants import timestamp


def key_message(key: ApiKey) -> key_service_pb2.ApiKey:
    """Show a key as it stands."""
    return key_service_pb2.ApiKey(
        key_id=key.key_id,
        name=key.name,
        member=key.member or "",
        roles=key.roles,
        scopes=key.scopes,
        rate=key.rate or 0.0,
        burst=key.burst or 0,
        created_at=timestamp(key.created_at),
        created_by=key.created_by,
        expires_at=timestamp(key.expires_at),
        revoked_at=timestamp(key.revoked_at),
        revoked_by=key.revoked_by or "",
        last_used_at=timestamp(key.last_used_at),
        secrets=key.secrets,
    )


def member_message(member: Member) -> member_service_pb2.Member:
    """Show a member."""
    return member_service_pb2.Member(
        member=member.member, roles=member.roles, created_at=timestamp(member.created_at)
    )


def audit_message(line: AuditLine) -> audit_service_pb2.AuditEntry:
    """Show a line of the audit log."""
    return audit_service_pb2.AuditEntry(
        audit_id=line.audit_id,
        at=timestamp(line.at),
        actor=line.actor,
        action=line.action,
        target=line.target,
        details=line.details,
    )
