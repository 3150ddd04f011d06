"""Computed expressions: what CEL is given, what it answers, and every refusal by name (R12)."""

from __future__ import annotations

import pytest
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    NodeValue,
    RunFacts,
    Scope,
    compile_expression,
    compile_template,
    evaluate_bool,
    evaluate_duration,
    render,
)

RUN = RunFacts("r-1", "order", 3, "2026-01-02T03:04:05Z", "acme", {})
ERROR = b'{"class":"permanent","code":"NO_STOCK"}'


def scope(run_input: bytes) -> Scope:
    nodes = {
        "done": NodeValue("completed", b'{"n":2,"l":[{"y":1},{"y":2}]}', None),
        "skipped": NodeValue("skipped", None, None),
        "failed": NodeValue("failed", None, ERROR),
    }
    return Scope(run_input, nodes, RUN)


def value(source: str, run_input: bytes = b"{}") -> bytes:
    return render(compile_template("${" + source + "}"), scope(run_input))


def failure(source: str, run_input: bytes = b"{}") -> ExpressionFailed:
    with pytest.raises(ExpressionFailed) as caught:
        value(source, run_input)
    return caught.value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("nodes.done.output.n + 1", b"3"),
        ("nodes.done.output.l.map(i, i.y * 2)", b"[2,4]"),
        ("nodes.done.output.l[1].y + nodes.done.output.n", b"4"),
        ("nodes.done.output.l.size()", b"2"),
        ("nodes.done.status == 'completed'", b"true"),
        ("nodes.failed.error.code + '!'", b'"NO_STOCK!"'),
        ("has(nodes.skipped.output)", b"false"),
        ("has(nodes.done.output)", b"true"),
        ("has(nodes.done.output.n) && nodes.done.output.n > 1", b"true"),
        ("nodes.skipped.?output.orValue('none')", b'"none"'),
        ("coalesce(nodes.skipped.output, nodes.done.output.n) + 1", b"3"),
        ("coalesce(nodes.skipped.output.x.y, 5) + 1", b"6"),
        ("nodes.done.output.l.map(i, coalesce(i.z, i.y))", b"[1,2]"),
        ("'coalesce(' + \"x\"", b'"coalesce(x"'),
        ("{'b': 1, 'a': 2.5}", b'{"a":2.5,"b":1}'),
        ("timestamp(run.started_at) + duration('90m')", b'"2026-01-02T04:34:05Z"'),
        ("duration('90m')", b'"5400s"'),
        ("duration('-1.5s')", b'"-1.5s"'),
        ("type(run.version) == int", b"true"),
        ("'a,b'.split(',').join('-')", b'"a-b"'),
        ("base64.encode(b'abc')", b'"YWJj"'),
        ("math.greatest(1, 2)", b"2"),
        ("cel.bind(x, nodes.done.output.n, x * x)", b"4"),
    ],
)
def test_computed_values(source: str, expected: bytes) -> None:
    assert value(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "input.m.map(k, k)",
        "input.m.filter(k, k != 'a')",
        "input.l.map(i, i.m.map(k, k))",
        "input.l.filter(i, true).map(i, i.m).map(m, m.map(k, k))",
        "cel.bind(m, input.m, m.map(k, k))",
        "(input.ok ? input.m : input.l).map(k, k)",
        "input.?m.orValue([]).map(k, k)",
        "input['m'].map(k, k)",
        "input.x[input.y].map(k, k)",
    ],
)
def test_a_list_is_never_made_from_an_objects_members_which_have_no_order(source: str) -> None:
    data = b'{"m":{"b":1,"a":2},"l":[{"m":{"x":1}}],"ok":true,"x":[{"z":1}],"y":0}'
    failed = failure(source, data)
    assert failed.expression_code is ExpressionCode.TYPE
    assert "no order" in failed.message


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("input.rows.map(r, r.map(c, c + 1))", b"[[2,3],[4]]"),
        ("input.rows.map(r, r.filter(c, c > 1))", b"[[2],[3]]"),
        ("(input.rows[0] + input.rows[1]).map(c, c)", b"[1,2,3]"),
        ("input.rows.filter(r, r.size() > 1).map(r, r[0])", b"[1]"),
        ("[input.rows, []].map(r, r.map(c, 1))", b"[[1,1],[]]"),
        ("'a b'.split(' ').map(w, w + '!')", b'["a!","b!"]'),
        ("input.m.exists(k, k == 'a') && input.m.all(k, input.m[k] > 0)", b"true"),
        ("{'z': 1, 'b': {'y': 1, 'c': 2}, 'a': 3}", b'{"a":3,"b":{"c":2,"y":1},"z":1}'),
        ("[input.m]", b'[{"a":2,"b":1}]'),
    ],
)
def test_answers_have_one_order_in_every_process(source: str, expected: bytes) -> None:
    assert value(source, b'{"rows":[[1,2],[3]],"m":{"b":1,"a":2}}') == expected


def test_characters_are_counted_not_bytes() -> None:
    assert value("input.t.size()", '{"t":"h\u00e9\U0001f600"}'.encode()) == b"3"


@pytest.mark.parametrize(
    ("source", "run_input", "code"),
    [
        ("input.n + 1", b'{"n":18446744073709551616}', ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("input.n + 1", b'{"n":9223372036854775807}', ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("size(input)", b'{"n":18446744073709551616}', ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("input.n + 1", b'{"n":' + b"9" * 5000 + b"}", ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("input.n + 1.0", b'{"n":1e400}', ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("1.0 / 0.0", b"{}", ExpressionCode.NUMBER_OUT_OF_RANGE),
        ("input.t == 'a'", rb'{"t":"a\u0000b"}', ExpressionCode.TEXT_NOT_SUPPORTED),
        ("input.t == 'a'", rb'{"t":"\ud800"}', ExpressionCode.TEXT_NOT_SUPPORTED),
        ("size(input)", rb'{"\u0000":1}', ExpressionCode.TEXT_NOT_SUPPORTED),
        ("input.x + 1", b"{}", ExpressionCode.ABSENT),
        ("input.x.y + 1", b'{"x":null}', ExpressionCode.ABSENT),
        ("input.l[3] + 1", b'{"l":[1]}', ExpressionCode.ABSENT),
        ("nodes.skipped.output.x + 1", b"{}", ExpressionCode.ABSENT),
        ("input.t + 1", b'{"t":"1"}', ExpressionCode.TYPE),
        ("input.t.x + 1", b'{"t":"1"}', ExpressionCode.TYPE),
        ("b'abc'", b"{}", ExpressionCode.TYPE),
        ("{1: 2}", b"{}", ExpressionCode.TYPE),
        ("[1].map(x, optional.of(x))", b"{}", ExpressionCode.TYPE),
        ("1 / input.n", b'{"n":0}', ExpressionCode.ERROR),
        ("int(input.t)", b'{"t":"x"}', ExpressionCode.ERROR),
    ],
)
def test_r12_what_cannot_be_taken_is_a_named_error(
    source: str, run_input: bytes, code: ExpressionCode
) -> None:
    failed = failure(source, run_input)
    assert failed.expression_code is code
    assert failed.source == source


def test_f100_the_text_of_a_failed_expression_can_always_be_stored() -> None:
    failed = failure("int(input.t)", b'{"t":"x"}')
    assert "\0" not in failed.message


def test_a_runaway_loop_ends_by_its_budget() -> None:
    items = b"[" + b",".join([b"1"] * 1000) + b"]"
    failed = failure("input.l.all(i, input.l.all(j, j == i))", b'{"l":' + items + b"}")
    assert failed.expression_code is ExpressionCode.LIMIT


def test_a_list_too_long_to_loop_over_is_refused_before_it_is_tried() -> None:
    items = b"[" + b",".join([b"1"] * 1001) + b"]"
    failed = failure("input.l.map(i, i)", b'{"l":' + items + b"}")
    assert failed.expression_code is ExpressionCode.LIMIT
    assert value("input.l.size()", b'{"l":' + items + b"}") == b"1001"


@pytest.mark.parametrize(
    "source",
    [
        "input.t.replace('', input.t)",
        "input.t.split('').map(x, input.t)",
        "cel.bind(a, "
        + " + ".join(["input.t"] * 25)
        + ", cel.bind(b, "
        + " + ".join(["a"] * 25)
        + ", cel.bind(c, "
        + " + ".join(["b"] * 25)
        + ", c)))",
    ],
)
def test_memory_that_would_grow_without_bound_is_refused_before(source: str) -> None:
    failed = failure(source, b'{"t":"' + b"x" * 200_000 + b'"}')
    assert failed.expression_code is ExpressionCode.LIMIT


def test_a_loop_over_much_that_adds_a_little_is_no_multiplication() -> None:
    rows = ",".join(['{"n":"' + "x" * 100 + '"}'] * 1000)
    data = b'{"p":"abc","l":[' + rows.encode() + b"]}"
    assert value("input.l.map(i, input.p + i.n).size()", data) == b"1000"


def test_the_same_expression_works_on_little() -> None:
    assert value("input.t.replace('', input.t)", b'{"t":"ab"}') == b'"abaabbab"'


@pytest.mark.parametrize("source", ["input.t + 'x'", "input.l[300000] + 1"])
def test_more_than_an_expression_may_be_given_is_refused(source: str) -> None:
    data = b'{"t":"' + b"x" * 300_000 + b'","l":[' + b",".join([b"1"] * 300_001) + b"]}"
    assert failure(source, data).expression_code is ExpressionCode.LIMIT


def test_a_plain_reference_has_no_limit() -> None:
    large = b'{"t":"' + b"x" * 1_000_000 + b'"}'
    assert len(value("input.t", large)) == 1_000_002


@pytest.mark.parametrize(
    ("source", "expected"),
    [("input.ok", True), ("!input.ok", False), ("input.n > 1", True), ("true", True)],
)
def test_conditions(source: str, expected: bool) -> None:
    condition = compile_expression(source)
    assert evaluate_bool(condition, scope(b'{"ok":true,"n":2}')) is expected


def test_a_condition_may_be_the_whole_input() -> None:
    assert evaluate_bool(compile_expression("input"), scope(b" true\n")) is True


@pytest.mark.parametrize("source", ["input.n", "input.t", "input.n + 1", "input.l"])
def test_nothing_but_true_and_false_is_a_condition(source: str) -> None:
    with pytest.raises(ExpressionFailed) as caught:
        evaluate_bool(compile_expression(source), scope(b'{"n":1,"t":"true","l":[]}'))
    assert caught.value.expression_code is ExpressionCode.TYPE


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10.0),
        ("1.5m", 90.0),
        ("2h", 7_200.0),
        ("3d", 259_200.0),
        (5, 5.0),
        (0.25, 0.25),
        ("${input.n}", 7.0),
        ("${input.t}", 60.0),
        ("${input.n}s", 7.0),
        ("${input.n * 2}", 14.0),
        ("${duration('90s')}", 90.0),
    ],
)
def test_durations(written: str | float, seconds: float) -> None:
    template = compile_template(written)
    assert evaluate_duration(template, scope(b'{"n":7,"t":"1m"}')) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "soon",
        "-5s",
        "${input.n - 10}",
        "11000d",
        True,
        None,
        "1e3s",
        "${input.long}",
        "${input.inf}",
    ],
)
def test_what_is_no_duration_fails_by_name(written: str | bool | None) -> None:
    data = b'{"n":7,"inf":1e400,"long":' + b"9" * 5000 + b"}"
    with pytest.raises(ExpressionFailed) as caught:
        evaluate_duration(compile_template(written), scope(data))
    assert caught.value.expression_code is ExpressionCode.TYPE
