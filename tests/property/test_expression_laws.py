"""Laws that hold for every expression and every document."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_machine.definition import canonical, parse
from perdure_machine.expressions import (
    ExpressionFailed,
    ExpressionInvalid,
    NodeValue,
    RunFacts,
    Scope,
    compile_template,
    render,
)
from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.values import Json
from perdure_runtime.errors import InvalidArgument

RUN = RunFacts("r", "w", 1, "2026-01-02T03:04:05Z", "default", {})
FRAGMENTS = """
input nodes run .a .output [0] .?b [?'c'] + == 1 'x' ( ) has( coalesce( , i ? : { } .map(i,
.all(i, .filter(i, ${ null // .orValue( cel.bind(x, x size( " \\ optional.none() duration('1s')
"""
PIECES = st.sampled_from([*FRAGMENTS.split(), " ", "\n"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAFE_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(PIECES, max_size=12).map("".join), VALUES)
@settings(max_examples=400)
def test_any_text_either_renders_to_json_or_fails_by_name(text: str, data: Json) -> None:
    payload = json.dumps(data).encode()
    scope = Scope(payload, {"a": NodeValue("completed", payload, None)}, RUN)
    try:
        rendered = render(compile_template("${" + text + "}"), scope)
    except (ExpressionInvalid, ExpressionFailed):
        return
    json.loads(rendered)


@given(VALUES)
def test_a_computed_value_equals_the_referenced_one_where_cel_can_hold_it(data: Json) -> None:
    scope = Scope(json.dumps({"x": data}).encode(), {}, RUN)
    referenced = render(compile_template("${input.x}"), scope)
    try:
        computed = render(compile_template("${[input.x][0]}"), scope)
    except ExpressionFailed:
        return
    assert json.loads(computed) == json.loads(referenced)


@given(DOCUMENTS)
@settings(max_examples=200)
def test_any_document_is_a_definition_or_is_refused_by_name(document: Json) -> None:
    for nodes in (document, {"a": document}, {"a": {"task": document}, "b": {"wait": document}}):
        try:
            parse(json.dumps({"name": "w", "nodes": nodes}).encode(), known_lanes=frozenset({"io"}))
        except InvalidArgument:
            continue


@given(DOCUMENTS)
def test_f121_a_document_and_its_canonical_form_have_one_digest(document: Json) -> None:
    data = json.dumps({"d": document}).encode()
    assert canonical(canonical(data)) == canonical(data)
    assert json.loads(canonical(data)) == {"d": document}


@given(st.text(max_size=12))
def test_a_duration_is_seconds_in_range_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0 <= seconds <= 10 * 366 * 86_400
