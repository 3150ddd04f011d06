"""MemberService: the members of the caller's org."""

from __future__ import annotations

from perdure_contracts.internal.v1 import key_service_pb2 as internal
from perdure_contracts.v1 import member_service_pb2 as public
from perdure_runtime.access import permissions
from perdure_runtime.gate.identity import Caller
from perdure_store.members import Member, member_not_found
from perdure_store.members import list_members as read_members
from perdure_store.org_reads import reading

from perdure_ingest import limits
from perdure_ingest.doors import Doors
from perdure_ingest.handlers.rights import read_roles, refuse_more_than_own
from perdure_ingest.paging import fill_page
from perdure_ingest.validation import Check
from perdure_ingest.views.keys import member_message


async def put_member(
    doors: Doors, caller: Caller, request: public.PutMemberRequest
) -> public.PutMemberResponse:
    """Make a member or change its roles, and tell how it stands."""
    fields = Check()
    member = _member(fields, request.member)
    roles = read_roles(fields, request.roles)
    fields.refuse()
    refuse_more_than_own(caller, permissions(roles))
    await doors.coordinator.keys.put_member(
        internal.PutMemberRequest(org=caller.org, member=member, roles=roles, asked_by=caller.actor)
    )
    return public.PutMemberResponse(member=member_message(await _read(doors, caller, member)))


async def list_members(
    doors: Doors, caller: Caller, request: public.ListMembersRequest
) -> public.ListMembersResponse:
    """List members by name; a page goes on after the last of the page before."""
    fields = Check()
    size = fields.page_size("page_size", request.page_size, default=limits.DEFAULT_PAGE)
    fields.refuse()
    query = ("ListMembers", caller.org)
    after = doors.tokens.read(query, request.page_token) or ""
    async with reading(doors.pool, caller.org) as connection:
        rows = await read_members(connection, caller.org, after=after, limit=size + 1)
    page = fill_page(rows, size, member_message)
    token = doors.tokens.make(query, page.last.member) if page.last else ""
    return public.ListMembersResponse(members=page.messages, next_page_token=token)


async def remove_member(
    doors: Doors, caller: Caller, request: public.RemoveMemberRequest
) -> public.RemoveMemberResponse:
    """Remove a member, whose keys end."""
    fields = Check()
    member = _member(fields, request.member)
    reason = fields.text("reason", request.reason, longest=limits.MAX_REASON)
    fields.refuse()
    await _read(doors, caller, member)
    await doors.coordinator.keys.remove_member(
        internal.RemoveMemberRequest(
            org=caller.org, member=member, reason=reason, asked_by=caller.actor
        )
    )
    return public.RemoveMemberResponse()


async def _read(doors: Doors, caller: Caller, member: str) -> Member:
    async with reading(doors.pool, caller.org) as connection:
        found = await read_members(connection, caller.org, only=member, limit=1)
    if not found:
        raise member_not_found(member)
    return found[0]


def _member(fields: Check, given: str) -> str:
    return fields.text("member", given, longest=limits.MAX_NAME, required=True)
