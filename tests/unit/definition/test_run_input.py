"""The run's input at the door: refused by field, defaults filled in, all other bytes kept (R12)."""

from __future__ import annotations

import json

import pytest
from perdure_machine.definition import DefinitionInvalid, input_with_defaults, parse
from perdure_machine.expressions.values import Json
from perdure_runtime.errors import InvalidArgument, Reason

SCHEMA: Json = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "mode": {"enum": ["fast", "slow"], "default": "fast"},
        "limit": {"type": "number", "default": 2**64},
        "to": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "greeting": {"type": "string", "default": "Dear"},
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def given(payload: bytes, schema: Json = SCHEMA) -> bytes:
    document = {"name": "w", "input": schema, "nodes": {"a": {"wait": "1s"}}}
    definition = parse(json.dumps(document).encode(), known_lanes=frozenset({"io"}))
    return input_with_defaults(definition, payload)


def violations(payload: bytes) -> list[str]:
    with pytest.raises(InvalidArgument) as caught:
        given(payload)
    assert caught.value.reason is Reason.FIELD_INVALID
    return sorted(violation.field for violation in caught.value.violations)


def test_r12_without_a_default_to_fill_in_the_bytes_come_back() -> None:
    data = b' { "limit":1.0, "id" : 18446744073709551616 ,"mode":"slow", "tags":["\\u0000"] } '
    assert given(data) == data


def test_r12_a_default_is_added_and_every_other_byte_stays() -> None:
    data = rb' {"id" : 18446744073709551616, "to": { "name" : "a\u0000\ud800" }, "tags":[ ] } '
    assert given(data) == (
        rb' {"id" : 18446744073709551616, "to": { "name" : "a\u0000\ud800" ,"greeting":"Dear"},'
        rb' "tags":[ ] ,"mode":"fast","limit":18446744073709551616} '
    )


@pytest.mark.parametrize(
    ("member", "type_"),
    [
        ("9" * 5000, "integer"),
        ("1e400", "number"),
        ("-1e99999999", "number"),
        (r'"\ud800"', "string"),
        (r'"\u0000\ud83d\ude00"', "string"),
    ],
)
def test_r12_what_other_readers_cannot_hold_passes_the_schema(member: str, type_: str) -> None:
    schema: Json = {"properties": {"x": {"type": type_, "maxLength": 2}}}
    data = b'{"x":' + member.encode() + b',"\\udfff":1}'
    assert given(data, schema) == data
    with pytest.raises(InvalidArgument):
        given(data, {"properties": {"x": {"type": "boolean"}}})


def test_an_empty_object_takes_defaults_without_a_comma() -> None:
    assert given(b'{"id":1,"to":{ }}').startswith(b'{"id":1,"to":{ "greeting":"Dear"}')


def test_a_member_that_is_null_is_there() -> None:
    assert violations(b'{"id":1,"mode":null}') == ["input.mode"]


def test_every_violation_names_its_field() -> None:
    data = b'{"mode":"x","to":{"name":5},"tags":["a",1],"colour":"red"}'
    expected = ["input.colour", "input.id", "input.mode", "input.tags[1]", "input.to.name"]
    assert violations(data) == expected


@pytest.mark.parametrize("data", [b"5", b"null", b"[]", b'"x"'])
def test_another_type_is_refused_at_the_top(data: bytes) -> None:
    assert violations(data) == ["input"]


def test_no_input_is_an_empty_one_where_there_is_a_schema() -> None:
    assert violations(b"") == ["input.id"]
    schema: Json = {"properties": {"x": {"default": 1}}}
    assert given(b"", schema) == b'{"x":1}'


def test_without_a_schema_any_input_passes_untouched() -> None:
    definition = parse(b"name: w\nnodes: {a: {wait: 1s}}", known_lanes=frozenset({"io"}))
    for data in (b"", b" null", b"[1 ]"):
        assert input_with_defaults(definition, data) == data


def test_a_schema_that_runs_away_in_other_engines_does_not_here() -> None:
    schema: Json = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    with pytest.raises(InvalidArgument):
        given(b'{"x":"' + b"a" * 50_000 + b'b"}', schema)


def test_depth_is_refused_before_the_schema_sees_it() -> None:
    with pytest.raises(InvalidArgument, match="nested deeper than 128"):
        given(b"[" * 100_000 + b"]" * 100_000)


def test_a_default_that_does_not_fit_is_refused_at_publish() -> None:
    schema: Json = {
        "$defs": {"small": {"maximum": 5}},
        "properties": {
            "a": {"type": "integer", "default": "x"},
            "b": {"properties": {"c": {"$ref": "#/$defs/small", "default": 9}}},
            "d": {"$ref": "#/properties/a", "default": "judged at each start"},
            "e": {"$ref": "#/$defs/small", "default": 5},
        },
    }
    with pytest.raises(DefinitionInvalid) as caught:
        given(b"{}", schema)
    assert [problem.path for problem in caught.value.problems] == [
        "input.properties.a.default",
        "input.properties.b.properties.c.default",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strange"},
        {"pattern": "("},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        5,
    ],
)
def test_what_is_no_schema_or_refers_elsewhere_is_refused_at_publish(schema: Json) -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        given(b"{}", schema)
    assert [problem.path for problem in caught.value.problems] == ["input"]
