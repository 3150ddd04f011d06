import uuid

import pytest
from perdure_streams.message import BrokenEntry, Fields, Hint, decode, encode

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
FIELDS: Fields = {b"org": b"acme", b"run": str(RUN).encode(), b"step": b"7"}


def as_received(hint: Hint) -> Fields:
    return {str(name).encode(): str(value).encode() for name, value in encode(hint).items()}


@pytest.mark.parametrize("traceparent", [None, "00-" + "1" * 32 + "-" + "2" * 16 + "-01"])
def test_a_hint_comes_back_as_it_was_sent(traceparent: str | None) -> None:
    hint = Hint("ümlaut", RUN, 7, traceparent)
    assert decode(as_received(hint)) == hint


def test_fields_of_a_newer_release_are_ignored() -> None:
    assert decode({**FIELDS, b"colour": b"blue"}) == Hint("acme", RUN, 7)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {b"org": b"acme", b"step": b"7"},
        {**FIELDS, b"run": b"not an id"},
        {**FIELDS, b"step": b"seven"},
        {**FIELDS, b"step": b"0"},
        {**FIELDS, b"step": b"2147483648"},
        {**FIELDS, b"org": b""},
        {**FIELDS, b"org": b"\xff"},
    ],
)
def test_what_is_no_hint_is_refused_by_type(broken: Fields) -> None:
    with pytest.raises(BrokenEntry):
        decode(broken)
