"""The values of the builder: complete, typed, and written down so that nothing of them is lost."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import perdure.workflow as wf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure.workflow.expressions import literal
from perdure.workflow.parts import Part
from perdure_machine.definition.document import read_document
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.schema import schema_text

A = wf.Node("a")
ECHO = wf.Task("echo")

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TRICKY = st.sampled_from(
    ["on", "No", "1e3", "-1.5E+2", ".5e1", "12", "~", "", "2024-01-01", "=", "0x1"]
)


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS | TRICKY, st.lists))
def test_yaml_gives_every_value_back_as_it_was(value: Any) -> None:
    built = wf.Workflow("w", {A: wf.Transform({"value": value, "on": value})})
    problems = Problems()
    read = read_document(built.to_yaml().encode(), problems)
    assert not problems.found
    assert read == json.loads(built.to_json())


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists))
def test_a_literal_is_the_value_in_cel(value: Any) -> None:
    assert literal(value) == json.dumps(value, ensure_ascii=False)


def test_operators_keep_their_operands_together() -> None:
    n, m = wf.INPUT["n"], wf.INPUT["m-1"]
    assert ((n + 1) * m).text == '(input.n + 1) * input["m-1"]'
    assert ((n - 1) / 2 % m).text == '((input.n - 1) / 2) % input["m-1"]'
    assert (n <= 1.5).text == "input.n <= 1.5"
    assert ((n >= 1) | ~(m < 2)).text == '(input.n >= 1) || !(input["m-1"] < 2)'
    assert wf.cel("size(", n + m, ") == 2").text == 'size((input.n + input["m-1"])) == 2'
    assert wf.cel("order")["if"][0].text == 'order["if"][0]'
    assert wf.call("join", ["a", n], {"k": None}).text == 'join(["a", input.n], {"k": null})'


def test_an_expression_is_never_taken_for_a_value() -> None:
    with pytest.raises(TypeError, match="no value yet"):
        bool(wf.INPUT["n"] == 1)
    with pytest.raises(TypeError, match="no value yet"):
        list(wf.INPUT["tags"])


def test_two_nodes_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two nodes have the id 'a'"):
        wf.Workflow("w", {A: ECHO, wf.Node("a"): ECHO}).to_json()


SCHEMA: dict[str, Any] = json.loads(schema_text())
KINDS = {kind.NAME: kind for kind in wf.Kind.__subclasses__()}
PARTS: dict[str, tuple[type[Part], ...]] = {
    "case": (wf.Case,),
    "http_effect": (wf.Effect,),
    "http_lookup": (wf.HttpLookup,),
    "grpc_effect": (wf.Effect,),
    "grpc_lookup": (wf.GrpcLookup,),
    "fail": (wf.Failure,),
    "handler": (wf.CatchThen, wf.CatchOutput, wf.FailAs),
    "retry_rule": (wf.Retry,),
}
INSIDE: dict[tuple[str, str], type[Part]] = {
    ("for_each", "source"): wf.Source,
    ("for_each", "failures"): wf.Failures,
    ("repeat", "backoff"): wf.Backoff,
}


def names(*parts: type[Part]) -> set[str]:
    return {field.name.rstrip("_") for part in parts for field in fields(part)}


def test_the_builder_has_every_member_of_the_language_and_no_other() -> None:
    node = SCHEMA["$defs"]["node"]["properties"]
    assert names(wf.Workflow) == set(SCHEMA["properties"])
    assert names(wf.Limits) == set(SCHEMA["properties"]["limits"]["properties"])
    assert names(wf.Kind) | set(KINDS) == set(node)
    for name, kind in KINDS.items():
        own = names(kind) - names(wf.Kind)
        assert kind.BODY or own == set(SCHEMA["$defs"][name]["properties"]) - names(wf.Kind), name
    for (kind_name, member), part in INSIDE.items():
        described = SCHEMA["$defs"][kind_name]["properties"][member]["properties"]
        assert names(part) == set(described), member
    for name, parts in PARTS.items():
        assert names(*parts) == set(SCHEMA["$defs"][name]["properties"]), name


if TYPE_CHECKING:  # `make types` proves that each line is refused: an ignore too many is an error
    wf.Task("h", needs=["a"])  # type: ignore[list-item]
    wf.Task("h", needs=[A.output])  # type: ignore[list-item]
    wf.Task("h", wehn=A.output == 1)  # type: ignore[call-arg]
    wf.Task("h", when="nodes.a.output")  # type: ignore[arg-type]
    wf.Task("h", join="most")  # type: ignore[arg-type]
    wf.Task("h", A.outptu)  # type: ignore[attr-defined]
    wf.Switch([wf.Case(A.output > 1, ["b"])])  # type: ignore[list-item]
    wf.Http("https://x.example", method="FETCH")  # type: ignore[arg-type]
    wf.Workflow("w", {"a": ECHO})  # type: ignore[dict-item]
