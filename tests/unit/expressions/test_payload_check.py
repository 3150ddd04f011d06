"""Payloads are checked at the door and never rewritten (R12, p10)."""

from __future__ import annotations

import pytest
from perdure_machine.payload import check_payload, cut
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

MAX_BYTES = 4096
MAX_DEPTH = 16


def refused(data: bytes) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        check_payload(data, "input", MAX_BYTES, MAX_DEPTH)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b"18446744073709551616",
        b"9" * 4000,
        b"1e400",
        rb'"a\u0000b"',
        rb'"\ud800"',
        rb'{"\udc00": 1}',
        rb'"\\ud800"',
        rb'"\\\ud800"',
        b'{"a":1,"a":2}',
        b' {"b" : 1 , "a" : [ ] } ',
        '"h\u00e9\U0001f600"'.encode(),
    ],
)
def test_r12_any_json_passes(data: bytes) -> None:
    check_payload(data, "input", MAX_BYTES, MAX_DEPTH)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"-Infinity",
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":1} {}',
        b"01",
        b'"a\x00b"',
        rb'"\x41"',
        rb'"\ud8"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
    ],
)
def test_r12_what_is_no_json_is_refused_by_field(data: bytes) -> None:
    error = refused(data)
    assert error.reason is Reason.PAYLOAD_INVALID
    assert [violation.field for violation in error.violations] == ["input"]


def test_f102_a_raw_nul_is_refused_at_the_door_and_an_escaped_one_is_kept() -> None:
    assert refused(b'"\x00"').reason is Reason.PAYLOAD_INVALID
    check_payload(rb'"\u0000"', "input", MAX_BYTES, MAX_DEPTH)


def test_a_payload_over_the_limit_is_refused_with_limit_and_size() -> None:
    error = refused(b'"' + b"a" * MAX_BYTES + b'"')
    assert error.reason is Reason.PAYLOAD_TOO_LARGE
    assert error.metadata == {"limit": "4096", "size": "4098"}


def test_depth_counts_brackets_outside_text_only() -> None:
    check_payload(b'"' + b"[" * 100 + b'"', "input", MAX_BYTES, MAX_DEPTH)
    check_payload(rb'["\"[[[[[[[[[[[[[[[[[[[[[["]', "input", MAX_BYTES, MAX_DEPTH)
    check_payload(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "input", MAX_BYTES, MAX_DEPTH)
    error = refused(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert error.violations == (FieldViolation("input", "is nested deeper than 16 levels"),)


def test_hundred_thousand_levels_are_refused_and_nothing_crashes() -> None:
    data = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(InvalidArgument):
        check_payload(data, "input", 1_000_000, 128)


PAYLOAD = rb'{ "a" : {"big":18446744073709551616,"nul":"\u0000"}, "l":[1 , {"x":1e400}], "a b":0 }'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), PAYLOAD),
        (("a",), rb'{"big":18446744073709551616,"nul":"\u0000"}'),
        (("a", "big"), b"18446744073709551616"),
        (("a", "nul"), rb'"\u0000"'),
        (("l", 1, "x"), b"1e400"),
        (("l", 0), b"1"),
        (("a b",), b"0"),
        (("l", 2), None),
        (("l", -1), None),
        (("l", "0"), None),
        (("a", 0), None),
        (("a", "big", "x"), None),
        (("missing",), None),
    ],
)
def test_r12_a_cut_value_has_the_bytes_that_came(
    path: tuple[str | int, ...], expected: bytes | None
) -> None:
    assert cut(PAYLOAD, path) == expected


def test_r12_half_of_a_surrogate_pair_elsewhere_spoils_nothing() -> None:
    data = rb'{"\ud800":"\udfff", "a":{"b":[0, 18446744073709551616]}, "c":"\ud83d\ude00"}'
    assert cut(data, ("a", "b", 1)) == b"18446744073709551616"
    assert cut(data, ("\ud800",)) == rb'"\udfff"'
    assert cut(data, ("c",)) == rb'"\ud83d\ude00"'
    assert cut(data, ("missing",)) is None


@pytest.mark.parametrize("data", [b'{"a":1,"a":2}', rb'{"a":1,"a":2,"x":"\ud800"}'])
def test_of_two_members_with_one_name_the_last_counts(data: bytes) -> None:
    assert cut(data, ("a",)) == b"2"
