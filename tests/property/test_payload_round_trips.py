"""For any JSON text: a reference gives back exactly the bytes that came (R12, p10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_machine.expressions import RunFacts, Scope, compile_template, render
from perdure_machine.payload import Path, check_payload, cut, deeper_than, with_member
from perdure_runtime.errors import InvalidArgument

RUN = RunFacts("r", "w", 1, "2026-01-02T03:04:05Z", "default", {})

SPACES = st.sampled_from(["", "", "", " ", "\n\t", "  "])
ESCAPES = st.sampled_from(
    [
        r"\u0000",
        r"\ud800",
        r"\uDFFF",
        r"\ud83d\ude00",
        r"\\",
        r"\"",
        r"\/",
        r"\n",
        r"\\ud800",
        r"\u00e9",
    ]
)
PLAIN = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=4
)
LITERALS = st.lists(ESCAPES | PLAIN, max_size=4).map(lambda parts: '"' + "".join(parts) + '"')
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["1e400", "-0", "1.10", "2E+3", "18446744073709551616", "9" * 40]),
)


@dataclass(frozen=True)
class Text:
    """JSON text, and the texts of what is directly inside."""

    text: str
    inside: dict[str | int, Text] = field(default_factory=dict)

    def places(self) -> Iterator[tuple[Path, str]]:
        """Yield every path with the text that stands there."""
        yield (), self.text
        for key, value in self.inside.items():
            for path, text in value.places():
                yield (key, *path), text


def an_object(members: list[tuple[str, str, Text]]) -> Text:
    written = ",".join(
        f"{space}{key}{space}:{space}{value.text}{space}" for key, space, value in members
    )
    return Text("{" + written + "}", {json.loads(key): value for key, _, value in members})


def a_list(items: list[tuple[str, Text]]) -> Text:
    written = ",".join(space + value.text + space for space, value in items)
    return Text("[" + written + "]", {index: value for index, (_, value) in enumerate(items)})


SCALARS = st.one_of(LITERALS, NUMBERS, st.sampled_from(["true", "false", "null"])).map(Text)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(st.tuples(LITERALS, SPACES, inner), max_size=4).map(an_object),
        st.lists(st.tuples(SPACES, inner), max_size=4).map(a_list),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_r12_every_value_is_cut_as_it_came(value: Text) -> None:
    data = value.text.encode()
    check_payload(data, "input", len(data), 100)
    for path, text in value.places():
        assert cut(data, path) == text.encode(), path


@given(VALUES, st.lists(st.text(max_size=3) | st.integers(-1, 9), max_size=3))
def test_a_path_that_leads_nowhere_cuts_nothing(value: Text, path: list[str | int]) -> None:
    known = dict(value.places())
    expected = known.get(tuple(path))
    assert cut(value.text.encode(), tuple(path)) == (expected.encode() if expected else None)


@given(VALUES, st.data())
def test_r12_p10_a_template_splices_any_value_byte_for_byte(
    value: Text, data: st.DataObject
) -> None:
    payload = b'{"p":' + value.text.encode() + b"}"
    path, text = data.draw(st.sampled_from(list(value.places())))
    if any(isinstance(key, str) and not key.isalnum() for key in path):
        path, text = (), value.text
    source = "input.p" + "".join(f"[{json.dumps(key)}]" for key in path)
    template = compile_template({"z": "${" + source + "}", "a": ["${input}", 1]})
    rendered = render(template, Scope(payload, {}, RUN))
    assert rendered == b'{"z":' + text.encode() + b',"a":[' + payload + b",1]}"


@given(VALUES)
def test_text_around_a_value_holds_its_json_or_its_characters(value: Text) -> None:
    template = compile_template("<${input}>")
    rendered = json.loads(render(template, Scope(value.text.encode(), {}, RUN)))
    given_value = json.loads(value.text)
    inside = given_value if isinstance(given_value, str) else value.text
    assert rendered == f"<{inside}>"


@given(VALUES, LITERALS)
def test_a_member_is_replaced_and_every_other_byte_stays(value: Text, key: str) -> None:
    before, after = b'{ "first" : [1 ] ,' + key.encode() + b" :", b' , "last":{}}'
    name = json.loads(key)
    if name in ("first", "last"):
        return
    data = before + value.text.encode() + after
    assert with_member(data, name, b"new") == before + b"new" + after


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
@settings(max_examples=300)
def test_what_passes_the_check_is_what_a_strict_reader_takes(data: bytes) -> None:
    def no_constant(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(data.decode("utf-8"), parse_constant=no_constant, parse_int=str)
        valid = True
    except ValueError:
        valid = False
    try:
        check_payload(data, "input", 100, 100)
        passed = True
    except InvalidArgument:
        passed = False
    assert passed == valid


@given(VALUES)
def test_depth_is_counted_as_values_nest(value: Text) -> None:
    def depth(item: object) -> int:
        return 1 + max(map(depth, item), default=0) if isinstance(item, list) else 0

    def members(pairs: list[tuple[str, object]]) -> list[object]:
        return [inner for _, inner in pairs]

    data = value.text.encode()
    levels = depth(json.loads(data, object_pairs_hook=members, parse_int=str))
    assert not deeper_than(data, levels)
    assert levels == 0 or deeper_than(data, levels - 1)
    assert not deeper_than(json.dumps([value.text]).encode(), 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("filling", [rb"\"", b'"\\', b"x"])
def test_the_depth_of_a_text_that_never_ends_is_found_in_one_pass(filling: bytes) -> None:
    data = b"[" * 101 + b'"' + filling * 500_000
    assert deeper_than(data, 100)
    with pytest.raises(InvalidArgument):
        check_payload(b"[" * 50 + b'"' + b"[" * 60 + filling * 500_000, "p", 2**22, 100)
