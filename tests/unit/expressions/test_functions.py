"""Our own functions: one answer in every process, and a name for what they cannot take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    ExpressionInvalid,
    RunFacts,
    Scope,
    compile_template,
    render,
)

FACTS = RunFacts("0198", "order", 1, "acme", "2026-03-29T01:00:00Z", {})


def value(source: str, **given: Any) -> Any:
    template = compile_template(f"${{{source}}}")
    return json.loads(render(template, Scope(json.dumps(given).encode(), {}, FACTS)))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("json.parse('18446744073709551616')", ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("json.parse('[NaN]')", ExpressionCode.TYPE),
        ("json.parse(input.deep)", ExpressionCode.LIMIT),
        ("json.parse('')", ExpressionCode.TYPE),
        ("json.parse('{\"a\": 1} x')", ExpressionCode.TYPE),
        (r"json.parse('\"\\u0000\"')", ExpressionCode.TEXT_NOT_SUPPORTED),
        (r"json.parse('\"\\ud800\"')", ExpressionCode.TEXT_NOT_SUPPORTED),
        ("json.parse('[' + '1,'.replace('1', '1,1,1,1,1,1,1,1') + '1]').size()", None),
        ("lists.range(-1)", ExpressionCode.LIMIT),
        ("lists.range(1001)", ExpressionCode.LIMIT),
        ("[1].slice(-1, 1)", ExpressionCode.TYPE),
        ("[1].slice(1, 0)", ExpressionCode.TYPE),
        ("[1, 'a'].sort()", ExpressionCode.TYPE),
        ("[true, false].sort()", ExpressionCode.TYPE),
        ("math.sum([true])", ExpressionCode.TYPE),
        ("math.sum([9223372036854775807, 1])", ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("math.sum(input.o)", ExpressionCode.TYPE),
        ("input.o.sort()", ExpressionCode.TYPE),
        ("[1].group('k')", ExpressionCode.TYPE),
        ("[{'k': 1}].group('k')", ExpressionCode.TYPE),
        ("url.decode('%ff')", ExpressionCode.TEXT_NOT_SUPPORTED),
        ("get(input.o, 'b')", ExpressionCode.ABSENT),
        ("get(input.o, 'a.b')", ExpressionCode.ABSENT),
        ("get(input.o, '[0]')", ExpressionCode.ABSENT),
        ("get([1], '[1]')", ExpressionCode.ABSENT),
        ("get([1], '0')", ExpressionCode.ABSENT),
        ("get('text', '[0]')", ExpressionCode.ABSENT),
        ("get(null, 'a')", ExpressionCode.ABSENT),
        ("get(input.o, '.a')", ExpressionCode.TYPE),
        ("get(input.o, 'a.')", ExpressionCode.TYPE),
        ("get(input.o, 'a..b')", ExpressionCode.TYPE),
        ("get(input.o, '[-1]')", ExpressionCode.TYPE),
        ("get(input.o, '[0]a', 1)", ExpressionCode.TYPE),
        ("get(input.o, '[0', 1)", ExpressionCode.TYPE),
        ("get(input.o, input.deep.replace('[', '[0]'), 1)", ExpressionCode.TYPE),
    ],
)
def test_what_a_function_cannot_take_has_a_name(source: str, code: ExpressionCode | None) -> None:
    if code is None:
        assert value(source) == 9
        return
    with pytest.raises(ExpressionFailed) as caught:
        value(source, o={"a": 1}, deep="[" * 5000)
    assert caught.value.expression_code is code


@pytest.mark.parametrize(
    "source",
    [
        "json.parse(input.text).map(k, k)",
        "json.parse(input.text).rows.map(k, k)",
        "merge(input.a, input.b).filter(k, true)",
        "input.rows.group('k').map(k, k)",
        "get(input, 'rows').map(k, k)",
        "get(input, 'rows', [1]).filter(k, true)",
    ],
)
def test_a_loop_over_what_may_be_an_object_is_refused_at_publish(source: str) -> None:
    with pytest.raises(ExpressionInvalid, match="whether it loops over a list"):
        compile_template(f"${{{source}}}")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", {"a": [{"b c": 1, "d.e": [None, True]}]}),
        ("a", [{"b c": 1, "d.e": [None, True]}]),
        ("a[0].b c", 1),
        ("['a'][0]['d.e'][1]", True),
        ('a[0]["d.e"][0]', None),
        ('a[0].f[""]', "default"),
        ("a[7]", "default"),
    ],
)
def test_a_path_that_is_data_leads_to_a_value_or_to_the_default(path: str, found: object) -> None:
    given = {"a": [{"b c": 1, "d.e": [None, True]}]}
    assert value("get(input.v, input.p, 'default')", v=given, p=path) == found


def test_what_a_path_that_is_data_reads_of_a_node_or_of_the_run_is_named() -> None:
    for source in ("get(nodes, 'a.output')", "get(nodes.a, 'output')", "get(run, 'id')"):
        with pytest.raises(ExpressionInvalid):
            compile_template(f"${{{source}}}")


def test_reading_along_paths_never_multiplies_what_it_reads_beyond_the_limit() -> None:
    grown = "input"
    for _ in range(12):
        grown = f"cel.bind(x, get([{grown}, {grown}], '[0]'), x)"
    with pytest.raises((ExpressionFailed, ExpressionInvalid)):
        value(f"size({grown})", text="x" * 250_000)


@pytest.mark.parametrize("function", ["sort()", "distinct()", "slice(0, 9)"])
def test_a_loop_over_the_objects_of_a_list_that_was_cut_is_seen(function: str) -> None:
    assert value(f"input.rows.{function}.map(r, r + 1)", rows=[1, 2]) == [2, 3]
    with pytest.raises(ExpressionFailed):
        value(f"input.rows.{function}.map(r, r.map(k, k))", rows=[{"b": 1, "a": 2}])


def test_equal_objects_are_one_whatever_the_order_of_their_members() -> None:
    rows = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}]
    assert value("input.rows.distinct()", rows=rows) == [{"a": 1, "b": 2}, {"a": 1}]
    assert value("json.format(input.rows[0]) == json.format(input.rows[1])", rows=rows) is True


def test_an_identifier_is_the_same_for_the_same_text() -> None:
    assert value("uuid(run.id) == uuid('0198') && uuid('a') != uuid('b')") is True


@pytest.mark.parametrize("text", ["", "a b&c=d/é~\N{SNOWMAN}", "%41"])
def test_a_url_gives_every_text_back(text: str) -> None:
    assert value("url.decode(url.encode(input.text))", text=text) == text


def test_lists_that_would_grow_without_bound_are_refused_before() -> None:
    grown = "lists.range(1000).map(i, lists.range(1000).map(j, lists.range(1000)))"
    with pytest.raises((ExpressionFailed, ExpressionInvalid)):
        value(f"{grown}.size()")
