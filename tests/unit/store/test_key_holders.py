"""Whom a key stands for, decided from what is known of it."""

from __future__ import annotations

from typing import Any

import pytest
from perdure_runtime.access import PERMISSIONS_OF, Permission, Role
from perdure_runtime.errors import Reason, Unauthenticated
from perdure_store.key_holders import holder_of
from perdure_store.keys import KnownSecret

DIGEST = bytes(range(32))
OTHER = bytes(32)


def known(**changed: Any) -> KnownSecret:
    usual: dict[str, Any] = {
        "prefix": "p",
        "digest": DIGEST,
        "key_id": "k1",
        "org": "acme",
        "name": "deploys",
        "member": None,
        "roles": ["operator"],
        "scopes": [],
        "rate": None,
        "burst": None,
        "is_revoked": False,
        "member_roles": None,
        "seconds_left": None,
    }
    return KnownSecret(**(usual | changed))


def refusal(known: KnownSecret | None, digest: bytes = DIGEST) -> Reason:
    with pytest.raises(Unauthenticated) as refused:
        holder_of(known, digest)
    return refused.value.reason


def test_a_good_key_stands_for_its_org_with_what_its_roles_allow() -> None:
    holder = holder_of(known(), DIGEST)
    assert (holder.org, holder.actor) == ("acme", "key deploys (k1)")
    assert holder.permissions == PERMISSIONS_OF[Role.OPERATOR]


def test_an_unknown_key_and_a_wrong_secret_are_answered_alike() -> None:
    assert refusal(None) == refusal(known(), OTHER) == Reason.KEY_INVALID


def test_that_a_key_was_revoked_or_expired_is_told_to_who_knows_its_secret_alone() -> None:
    assert refusal(known(is_revoked=True)) == Reason.KEY_REVOKED
    assert refusal(known(seconds_left=0.0)) == Reason.KEY_EXPIRED
    assert refusal(known(is_revoked=True), OTHER) == Reason.KEY_INVALID
    assert refusal(known(seconds_left=-1.0), OTHER) == Reason.KEY_INVALID


def test_scopes_narrow_the_roles() -> None:
    holder = holder_of(known(scopes=["runs:start", "keys:manage"]), DIGEST)
    assert holder.permissions == {Permission.RUNS_START}


def test_a_member_s_key_may_do_nothing_that_the_member_may_not() -> None:
    holder = holder_of(known(member="maya", member_roles=["viewer"]), DIGEST)
    assert holder.permissions == PERMISSIONS_OF[Role.VIEWER]
    assert holder.actor == "maya, key deploys (k1)"
    assert holder_of(known(member="gone", member_roles=None), DIGEST).permissions == frozenset()
