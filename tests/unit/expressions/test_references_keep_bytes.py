"""A reference is copied, not evaluated (R12, p10)."""

from __future__ import annotations

import pytest
from perdure_machine.expressions import (
    ExpressionCode,
    ExpressionFailed,
    NodeValue,
    RunFacts,
    Scope,
    compile_template,
    render,
)
from perdure_machine.expressions.values import Json

RUN = RunFacts("r-1", "order", 3, "2026-01-02T03:04:05Z", "acme", {"region": "eu"})
OUTPUT = rb'{"z":18446744073709551616,  "a":1e400, "t":"a\u0000b\ud800", "l":[{"y": 1.10 }]}'


def scope(run_input: bytes = b"{}", **outputs: bytes | None) -> Scope:
    nodes = {
        node: NodeValue("completed" if output is not None else "skipped", output, None)
        for node, output in outputs.items()
    }
    return Scope(run_input, nodes, RUN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${nodes.a.output}", OUTPUT),
        ("${nodes.a.output.z}", b"18446744073709551616"),
        ("${nodes.a.output.a}", b"1e400"),
        ("${nodes.a.output.t}", rb'"a\u0000b\ud800"'),
        ("${nodes.a.output.l[0]}", b'{"y": 1.10 }'),
        ("${nodes.a.output.l[0].y}", b"1.10"),
        ("${ nodes['a'].output['l'][0]['y'] }", b"1.10"),
        ("${nodes.a.output.`z`}", b"18446744073709551616"),
        ("${coalesce(nodes.b.output, nodes.a.output)}", OUTPUT),
        ("${coalesce(nodes.b.output, nodes.a.output.none, nodes.a.output.a)}", b"1e400"),
        ("${coalesce(nodes.b.output, 'else')}", b'"else"'),
        ("${coalesce(nodes.b.output)}", b"null"),
        ("${nodes.b.status}", b'"skipped"'),
        ("${run.id}", b'"r-1"'),
        ("${run.version}", b"3"),
        ("${run.tags.region}", b'"eu"'),
        (
            "Hello ${nodes.a.output.t}: ${nodes.a.output.z}",
            rb'"Hello a\u0000b\ud800: 18446744073709551616"',
        ),
        ("${nodes.a.output.l}!", rb'"[{\"y\": 1.10 }]!"'),
        ("costs $${5} and ${run.version}", b'"costs ${5} and 3"'),
        ("no expression", b'"no expression"'),
    ],
)
def test_r12_p10_references_come_byte_for_byte(text: str, expected: bytes) -> None:
    assert render(compile_template(text), scope(a=OUTPUT, b=None)) == expected


def test_f103_an_integer_beyond_2_53_keeps_every_digit() -> None:
    data = b'{"id":1970670598291982290}'
    template = compile_template({"id": "${input.id}", "same": "${input.id + 0}"})
    expected = b'{"id":1970670598291982290,"same":1970670598291982290}'
    assert render(template, scope(data)) == expected


def test_r12_what_an_expression_does_not_read_does_not_spoil_it() -> None:
    data = rb'{"n":41,"big":18446744073709551616,"nul":"\u0000","half":"\ud800","inf":1e400}'
    assert render(compile_template("${input.n + 1}"), scope(data)) == b"42"


def test_constants_are_written_in_the_documents_order() -> None:
    value: Json = {"z": 1, "a": [True, None, 2**70, 1.5, "é"], "m": {"y": "${input.x}", "b": {}}}
    rendered = render(compile_template(value), scope(b'{"x":[ ]}'))
    assert rendered == (
        '{"z":1,"a":[true,null,1180591620717411303424,1.5,"é"],"m":{"y":[ ],"b":{}}}'.encode()
    )


def test_an_absent_value_fails_by_name() -> None:
    with pytest.raises(ExpressionFailed) as caught:
        render(compile_template({"x": "${nodes.b.output.x}"}), scope(b=None))
    assert caught.value.expression_code is ExpressionCode.ABSENT
    assert caught.value.source == "nodes.b.output.x"


def test_absent_values_are_left_out_of_a_runs_output() -> None:
    template = compile_template(
        {"a": "${nodes.a.output}", "b": "${nodes.b.output}", "t": "-${nodes.b.output}-", "c": {}}
    )
    assert render(template, scope(a=b"1", b=None), omit_absent=True) == b'{"a":1,"c":{}}'
    whole = compile_template("${nodes.b.output}")
    assert render(whole, scope(b=None), omit_absent=True) == b"null"


def test_f091_a_template_that_repeats_a_large_value_fails_with_a_size_error() -> None:
    large = b'"' + b"x" * 1_000_000 + b'"'
    template = compile_template(["${input}", "${input}", "<${input}>"])
    with pytest.raises(ExpressionFailed) as caught:
        render(template, scope(large))
    assert caught.value.expression_code is ExpressionCode.TOO_LARGE
    assert len(render(compile_template({"x": "${input}"}), scope(large))) == 1_000_008


def test_without_an_input_everything_under_it_is_absent() -> None:
    with pytest.raises(ExpressionFailed) as caught:
        render(compile_template("${input}"), scope(b""))
    assert caught.value.expression_code is ExpressionCode.ABSENT
