"""What a definition says of its outside calls."""

from __future__ import annotations

import pytest
from perdure_machine.definition import DefinitionInvalid, EffectKind, Grpc, Http, parse

LANES = frozenset({"io"})


def call(members: str) -> Http:
    document = f"name: w\nnodes:\n  a: {{http: {{url: u, {members}}}}}"
    kind = parse(document.encode(), known_lanes=LANES).nodes["a"].kind
    assert isinstance(kind, Http)
    return kind


def problem(members: str) -> str:
    with pytest.raises(DefinitionInvalid) as caught:
        call(members)
    (one,) = caught.value.problems
    return f"{one.path}: {one.reason}"


def test_timeouts_are_seconds_and_what_is_left_out_is_the_workers() -> None:
    assert call("timeouts: {connect: 500ms}").timeouts == {"connect": 0.5}
    assert call("method: GET").timeouts == {}


def test_a_time_of_nothing_is_refused() -> None:
    assert "timeouts" in problem("timeouts: {read: 0}")


def test_a_call_that_changes_nothing_is_declared_to_be_repeatable() -> None:
    assert call("method: POST, effect: repeatable").effect is EffectKind.REPEATABLE


def test_redirects_are_followed_only_by_what_has_no_effect() -> None:
    assert call("redirects: 0").redirects == 0
    assert call("method: HEAD").redirects is None
    for members in ("method: POST, redirects: 1", "effect: provider, redirects: 1"):
        assert "follows none" in problem(members)


def method(members: str) -> Grpc:
    document = (
        f"name: w\nnodes:\n  a: {{grpc: {{target: 'h:1', service: s.S, method: M, {members}}}}}"
    )
    kind = parse(document.encode(), known_lanes=LANES).nodes["a"].kind
    assert isinstance(kind, Grpc)
    return kind


def test_a_method_goes_over_tls_and_has_an_effect_unless_it_says_otherwise() -> None:
    plain = method("request: {}")
    assert (plain.plaintext, plain.effect, plain.effect_keep) == (False, EffectKind.NONE, None)
    said = method("plaintext: true, effect: {kind: provider, keep: 1h}")
    assert (said.plaintext, said.effect, said.effect_keep) == (True, EffectKind.PROVIDER, 3600.0)
    assert method("effect: repeatable").effect is EffectKind.REPEATABLE


def test_a_method_is_looked_up_by_one_of_its_own_service_unless_it_says_otherwise() -> None:
    assert method("effect: none").lookup is None
    looked_up = method("effect: {kind: reconcile, lookup: {method: Find}}").lookup
    assert looked_up is not None
    assert (looked_up.service, looked_up.method, looked_up.request) == ("s.S", "Find", None)
    other = method("effect: {kind: provider, lookup: {method: Find, service: t.T}}").lookup
    assert other is not None
    assert other.service == "t.T"


@pytest.mark.parametrize(
    "members", ["service: 'a b'", "method: a/b", "metadata: {Upper: 1}", "deadline: 5"]
)
def test_what_names_no_method_is_refused(members: str) -> None:
    with pytest.raises(DefinitionInvalid):
        method(members)
