"""The gate's one table and its decision: what is not allowed by a row is refused."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import perdure_contracts.v1
import pytest
from perdure_ingest.gate.table import PACKAGE, RULES
from perdure_runtime.access import PERMISSIONS_OF, Permission, Role, permissions
from perdure_runtime.errors import PermissionDenied, Reason
from perdure_runtime.gate.authorise import Principal, authorise
from perdure_runtime.gate.identity import Caller
from perdure_worker.door.table import RULES as RULES_OF_THE_WORKER

METHOD = "/perdure.v1.RunService/StartRun"
OF_ALL_ORGS = "/perdure.v1.LaneService/PutLane"


def principal(*allowed: Permission, runs_installation: bool = False) -> Principal:
    return Principal("acme", "key deploys", frozenset(allowed), runs_installation, key="k1")


def public_methods() -> Iterator[str]:
    """Every method that the contracts describe, found by looking at them."""
    for found in pkgutil.iter_modules(perdure_contracts.v1.__path__):
        if found.name.endswith("_pb2"):
            module = importlib.import_module(f"perdure_contracts.v1.{found.name}")
            for service in module.DESCRIPTOR.services_by_name.values():
                yield from (f"/{service.full_name}/{method.name}" for method in service.methods)


def test_every_public_method_has_a_row_and_every_row_a_method() -> None:
    assert sorted(public_methods()) == sorted([*RULES, *RULES_OF_THE_WORKER])


def test_a_method_without_a_row_is_refused_to_everybody() -> None:
    everything = principal(*Permission, runs_installation=True)
    refusal = authorise(everything, f"/{PACKAGE}.RunService/NewMethod", RULES)
    assert isinstance(refusal, PermissionDenied)
    assert refusal.reason == Reason.PERMISSION_MISSING


def test_a_caller_with_the_permission_is_let_in_as_who_it_is() -> None:
    assert authorise(principal(Permission.RUNS_START), METHOD, RULES) == Caller(
        "acme", "key deploys", frozenset({Permission.RUNS_START})
    )


@pytest.mark.parametrize("permission", [p for p in Permission if p != Permission.RUNS_START])
def test_any_other_permission_does_not_do(permission: Permission) -> None:
    refusal = authorise(principal(permission), METHOD, RULES)
    assert isinstance(refusal, PermissionDenied)
    assert dict(refusal.metadata) == {"method": METHOD, "permission": "runs:start"}


def test_what_all_orgs_share_is_changed_by_the_org_that_runs_the_installation_alone() -> None:
    assert isinstance(authorise(principal(*Permission), OF_ALL_ORGS, RULES), PermissionDenied)
    allowed = principal(Permission.LANES_WRITE, runs_installation=True)
    assert isinstance(authorise(allowed, OF_ALL_ORGS, RULES), Caller)


def test_scopes_narrow_what_roles_allow_and_never_widen_it() -> None:
    scopes = [Permission.RUNS_START, Permission.KEYS_MANAGE]
    assert permissions([Role.OPERATOR], scopes) == {Permission.RUNS_START}
    assert permissions([Role.OPERATOR]) == PERMISSIONS_OF[Role.OPERATOR]
    assert permissions([], scopes) == frozenset()
    assert permissions([Role.VIEWER], [Permission.RUNS_START]) == frozenset()
