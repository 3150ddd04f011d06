"""What publish finds in an expression: its reads, and everything that it refuses."""

from __future__ import annotations

import pytest
from perdure_machine.expressions import (
    ExpressionInvalid,
    Read,
    compile_expression,
    compile_template,
)


def reads(source: str) -> set[Read]:
    return set(compile_expression(source).reads)


def output(node: str, *path: str | int, presence: bool = False) -> Read:
    return Read("nodes", node, "output", path, presence)


def of_input(*path: str | int) -> Read:
    return Read("input", None, None, path)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("input", {of_input()}),
        ("input.a[0].b + input.c", {of_input("a", 0, "b"), of_input("c")}),
        ("input['a b'].`c-d`", {of_input("a b", "c-d")}),
        ("input.l[input.i]", {of_input("l"), of_input("i")}),
        ("nodes.a.output.x + nodes['b'].output", {output("a", "x"), output("b")}),
        ("nodes.a.status == 'failed'", {Read("nodes", "a", "status", ())}),
        ("nodes.a.error.code", {Read("nodes", "a", "error", ("code",))}),
        ("has(nodes.a.output.x)", {output("a", "x", presence=True)}),
        ("nodes.?a.?output.orValue(1)", {output("a")}),
        ("nodes.a.output.?l[?0].hasValue()", {output("a", "l", 0)}),
        ("input.l.map(i, i.x + input.y)", {of_input("l"), of_input("y")}),
        ("input.l.map(input, input.x)", {of_input("l")}),
        ("input.l.filter(nodes, nodes.a)", {of_input("l")}),
        ("cel.bind(x, input.a, x.b + input.c)", {of_input("a"), of_input("c")}),
        ("coalesce(input.a, nodes.a.output)", {of_input("a"), output("a")}),
        ("1 + coalesce(input.a, input.b + 1)", {of_input("a"), of_input("b")}),
        ("run.id + run.tags.x", {Read("run", None, "id", ()), Read("run", None, "tags", ("x",))}),
        ("[input.a, {'k': input.b}]", {of_input("a"), of_input("b")}),
        ("type(input.x) == int", {of_input("x")}),
        ("true", set()),
    ],
)
def test_reads_are_found(source: str, expected: set[Read]) -> None:
    assert reads(source) == expected


def test_a_templates_reads_are_those_of_all_its_texts() -> None:
    template = compile_template({"a": ["${input.x} and ${input.y}"], "b": "${nodes.n.output}"})
    assert template.reads == {of_input("x"), of_input("y"), output("n")}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "it is empty"),
        ("1 +", "Syntax error"),
        ("foo.x", "nothing is called 'foo.x'"),
        ("now()", "nothing is called 'now'"),
        ("input.x.shout()", "nothing is called 'shout'"),
        ("'a' < 1", "no matching overload"),
        ("nodes", "nodes are named"),
        ("nodes[input.x].output", "nodes are named"),
        ("nodes.a", "node 'a' is not one value"),
        ("nodes.a.result", "node 'a' has no 'result'"),
        ("run", "the run is not one value"),
        ("run.owner", "the run has no 'owner'"),
        ("input.?x", "an optional"),
        ("coalesce()", "it is empty"),
        ("coalesce(input.x + 1, 2)", "no plain path"),
        ("coalesce(1, 2) + 1", "no plain path"),
        ("coalesce(input.x", "never closed"),
        ("{'b': 1, 'a': 2}.map(k, k)", "whether it loops over a list"),
        ("[{'b': 1}].map(m, m.map(k, k))", "whether it loops over a list"),
        ("'a\0b'", "NUL"),
        ("99999999999999999999", "invalid int literal"),
        ("'" + "x" * 2_100 + "'", "at most 2048"),
        (" + ".join(["1"] * 300), "recursion"),
        ("(" * 50 + "1" + ")" * 50, "recursion"),
        (
            "input.a.all(a, input.a.all(b, input.a.all(c, input.a.all(d, true))))",
            "nests 4 loops",
        ),
    ],
)
def test_what_cannot_be_compiled_says_why(source: str, reason: str) -> None:
    with pytest.raises(ExpressionInvalid) as caught:
        compile_expression(source)
    assert reason in caught.value.message


def test_the_name_of_a_root_may_be_bound_in_a_loop() -> None:
    assert reads("input.l.map(item, item.x)") == {of_input("l")}


def test_f006_zone_arithmetic_is_refused_because_it_would_use_another_tz_database() -> None:
    with pytest.raises(ExpressionInvalid, match="UTC only"):
        compile_expression("timestamp(run.started_at).getHours('Europe/Berlin')")
    compile_expression("timestamp(run.started_at).getHours()")


def test_macros_that_multiply_are_bounded() -> None:
    source = "input.?a"
    for name in "xyzuvw":
        source = f"({source}).optMap({name}, {name} + 1)"
    with pytest.raises(ExpressionInvalid):
        compile_expression(source + ".orValue(0)")


@pytest.mark.parametrize("text", ["${", "a ${input.x", "${{'a': 1}"])
def test_an_expression_that_is_never_closed_is_refused(text: str) -> None:
    with pytest.raises(ExpressionInvalid, match="never closed"):
        compile_template(text)


def test_braces_and_quotes_inside_an_expression_do_not_end_it() -> None:
    assert compile_template("${{'a': '}', \"b\": {'c': input.x}}}").reads == {of_input("x")}


def test_equal_sources_compile_to_equal_expressions() -> None:
    assert compile_expression("input.x + 1") == compile_expression("  input.x + 1 ")
