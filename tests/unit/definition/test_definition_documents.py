"""How a document's text is read: JSON, and YAML without its surprises."""

from __future__ import annotations

import re

import pytest
from perdure_machine.definition import DefinitionInvalid, Task, canonical, parse
from perdure_machine.expressions import RunFacts, Scope, render

LANES = frozenset({"io", "slow"})
SCOPE = Scope(b"{}", {}, RunFacts("r", "w", 1, "2026-01-02T03:04:05Z", "default", {}))


def problems(document: bytes) -> list[str]:
    with pytest.raises(DefinitionInvalid) as caught:
        parse(document, known_lanes=LANES)
    return [str(problem) for problem in caught.value.problems]


def constant(yaml_value: str) -> bytes:
    """Return what a handler would be given for a value written in YAML."""
    document = f"name: w\nnodes:\n  a:\n    task:\n      handler: h\n      input: {yaml_value}\n"
    kind = parse(document.encode(), known_lanes=LANES).nodes["a"].kind
    assert isinstance(kind, Task)
    assert kind.input is not None
    return render(kind.input, SCOPE)


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("on", b'"on"'),
        ("off", b'"off"'),
        ("yes", b'"yes"'),
        ("No", b'"No"'),
        ("2024-01-01", b'"2024-01-01"'),
        ("12:30:00", b'"12:30:00"'),
        ("1_000", b'"1_000"'),
        ("007", b'"007"'),
        ("0x1F", b'"0x1F"'),
        (".inf", b'".inf"'),
        ("<<", b'"<<"'),
        ("true", b"true"),
        ("'true'", b'"true"'),
        ("null", b"null"),
        ("~", b"null"),
        ("''", b'""'),
        ("1", b"1"),
        ("-1.50", b"-1.5"),
        ("1e3", b"1000.0"),
        (".5", b"0.5"),
        ("e5", b'"e5"'),
        ("1.", b'"1."'),
        ("18446744073709551616", b"18446744073709551616"),
        ('"\\u0000"', rb'"\u0000"'),
        ("{z: 1, a: {on: x, 404: y, true: z}}", b'{"z":1,"a":{"on":"x","404":"y","true":"z"}}'),
        ("[1, [2, {b: [], a: {}}]]", b'[1,[2,{"b":[],"a":{}}]]'),
    ],
)
def test_r12_yaml_values_mean_what_they_look_like(written: str, given: bytes) -> None:
    assert constant(written) == given


def test_on_is_a_key_of_a_retry_rule() -> None:
    document = b"name: w\nnodes: {a: {task: {handler: h}, retry: {on: [TIMEOUT], max: 1}}}"
    rule = parse(document, known_lanes=LANES).nodes["a"].retry[0]
    assert rule.on == frozenset({"TIMEOUT"})


def test_f121_the_same_content_has_one_canonical_form_whatever_its_layout() -> None:
    yaml_text = (
        b"# a comment\nname: w\nnodes:\n  a:\n    task: {input: {x: 1, y: [on]}, handler: h}\n"
    )
    json_text = (
        b'{"nodes": {"a": {"task": {"handler": "h", "input": {"y": ["on"], "x": 1}}}},"name":"w"}'
    )
    assert canonical(yaml_text) == canonical(json_text)
    assert canonical(yaml_text) != canonical(yaml_text.replace(b"x: 1", b"x: 2"))
    assert canonical(yaml_text) != canonical(yaml_text.replace(b"x: 1", b"x: '1'"))
    assert canonical(canonical(yaml_text)) == canonical(yaml_text)


@pytest.mark.parametrize(
    "document",
    [
        b"name: w\nname: x\nnodes: {a: {wait: 1s}}",
        b'{"name": "w", "name": "x", "nodes": {"a": {"wait": "1s"}}}',
        b"name: w\nnodes: {a: {wait: 1s}, a: {wait: 2s}}",
    ],
)
def test_a_key_that_stands_twice_is_refused(document: bytes) -> None:
    assert any("twice" in problem for problem in problems(document))


def test_aliases_work() -> None:
    document = b"""
name: w
nodes:
  a: {task: {handler: h}, retry: &patient {max: 7}}
  b: {task: {handler: h}, retry: *patient}
"""
    nodes = parse(document, known_lanes=LANES).nodes
    assert nodes["b"].retry == nodes["a"].retry


def test_a_billion_laughs_are_refused_before_they_unfold() -> None:
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "aliases unfold" in problems("\n".join(lines).encode())[0]


def test_an_alias_to_itself_is_refused() -> None:
    assert "aliases unfold" in problems(b"name: w\nnodes: &n {a: *n}")[0]


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b'{"a":', b"- "])
def test_depth_is_refused_and_nothing_crashes(opening: bytes) -> None:
    assert re.search("deeper than 64|maximum nesting", problems(opening * 50_000)[0])


def test_a_document_over_one_mebibyte_is_refused() -> None:
    assert "1048576" in problems(b"#" * (1024 * 1024 + 1))[0]


def test_more_expressions_than_publish_can_compile_in_time_are_refused() -> None:
    texts = ", ".join(["'${input.x}'"] * 2001)
    document = f"name: w\nnodes: {{a: {{transform: [{texts}]}}}}"
    assert problems(document.encode()) == ["document: it has more than 2000 expressions"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not an object"),
        (b"- a", "not an object"),
        (b"name: [", "not YAML"),
        (b"a: b: c", "not YAML: mapping values are not allowed"),
        (b"name: w\n---\nname: x", "not YAML"),
        (rb'{"name": "\ud800", "nodes": {}}', "half of a surrogate pair"),
        (b"name: \xff", "not UTF-8 at byte 6"),
        (b"name: !!python/object:os.system w", "the tag"),
        (b"? [a]\n: b", "keys are text"),
        (b"name: w\nnodes: {a: {wait: 1e400}}", "nodes.a.wait: 1e400 is beyond"),
        (b'{"name": "w", "nodes": {"a": {"wait": NaN}}}', "nodes.a.wait: 'NaN' is no duration"),
    ],
)
def test_what_cannot_be_read_says_where(document: bytes, reason: str) -> None:
    assert any(reason in problem for problem in problems(document)), problems(document)
