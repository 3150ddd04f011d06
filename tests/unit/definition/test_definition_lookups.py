"""What a definition says of looking its calls up, and what is refused of it."""

from __future__ import annotations

import pytest
from perdure_machine.definition import DefinitionInvalid, parse

HTTP = "http: {url: u, effect: {kind: reconcile, lookup: {%s}}}"
GRPC = (
    "grpc: {target: 'h:1', service: s, method: M, request: %s,"
    " effect: {kind: reconcile, lookup: {%s}}}"
)


def problems(kind: str, id_: str = "a") -> dict[str, str]:
    """Return the first problem at each place inside of the node."""
    document = f"name: w\nnodes: {{{id_}: {{{kind}}}}}"
    try:
        parse(document.encode(), known_lanes=frozenset({"io"}))
    except DefinitionInvalid as error:
        start = f"nodes.{id_}."
        return {one.path.removeprefix(start): one.reason for one in reversed(error.problems)}
    return {}


@pytest.mark.parametrize(
    "call", ["http: {url: u, %s}", "grpc: {target: t, service: s, method: M, %s}"]
)
@pytest.mark.parametrize("effect", ["effect: reconcile", "effect: {kind: reconcile}"])
def test_a_call_that_is_looked_up_says_how(call: str, effect: str) -> None:
    name = call.partition(":")[0]
    reason = "it says how to look up whether the call was performed"
    assert problems(call % effect) == {f"{name}.effect": reason}


@pytest.mark.parametrize("kind", ["none", "repeatable"])
@pytest.mark.parametrize("call", [HTTP % "url: l", GRPC % ("1", "method: F")])
def test_a_call_is_looked_up_only_if_its_kind_says_so(call: str, kind: str) -> None:
    name = call.partition(":")[0]
    reason = f"a call of kind `{kind}` is not looked up"
    assert problems(call.replace("reconcile", kind)) == {f"{name}.effect.lookup": reason}
    assert problems(call.replace("reconcile", "provider")) == {}


@pytest.mark.parametrize(
    ("call", "place", "reason"),
    [
        (GRPC % ("1", "method: F, url: l"), "grpc.effect.lookup.url", "nothing of this name"),
        (GRPC % ("1", "service: t"), "grpc.effect.lookup.method", "it is required"),
        (GRPC % ("1", "method: a/b"), "grpc.effect.lookup.method", ""),
        (GRPC % ("1", "method: F, metadata: {A: 1}"), "grpc.effect.lookup.metadata", "a name is"),
        (GRPC % ("1", "method: F, found: answer. +"), "grpc.effect.lookup.found", ""),
        (HTTP % "method: GET", "http.effect.lookup.url", "it is required"),
    ],
)
def test_what_no_look_up_has_is_refused_at_its_place(call: str, place: str, reason: str) -> None:
    found = problems(call)
    assert list(found) == [place]
    assert found[place].startswith(reason)


@pytest.mark.parametrize(
    ("call", "other"),
    [
        (GRPC % ("{n: 1}", "method: M, request: {n: 1}"), "service: t"),
        (HTTP % "url: u", "query: {q: 1}"),
    ],
)
def test_a_look_up_that_would_make_the_call_again_is_refused(call: str, other: str) -> None:
    name = call.partition(":")[0]
    assert problems(call) == {f"{name}.effect.lookup": "it would make the call again"}
    assert problems(call.replace("lookup: {", f"lookup: {{{other}, ")) == {}


def test_the_answer_to_a_look_up_is_read_in_the_look_up_alone() -> None:
    reading = "method: F, found: answer.x, output: '${answer.y}'"
    assert problems(GRPC % ("1", reading), id_="lookup") == {}
    assert list(problems(GRPC % ("'${answer.x}'", reading))) == ["grpc.request"]
    asking = "method: F, request: '${answer.x}'"
    assert list(problems(GRPC % ("1", asking))) == ["grpc.effect.lookup.request"]
    assert list(problems("transform: '${answer.body}'")) == ["transform"]
