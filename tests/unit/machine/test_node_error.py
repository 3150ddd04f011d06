import pytest
from perdure_machine.node_error import decode_error, encode_error, reported_error
from perdure_machine.view import NodeError

DETAILS = [
    None,
    b"null",
    b"[]",
    b'"text"',
    b'{"b": 1, "a": 18446744073709551616}',
    b'{"traceback": "line 1\\nline 2"}',
]


@pytest.mark.parametrize("details", DETAILS)
def test_an_error_is_read_as_it_was_written_with_its_details_byte_for_byte_r12(
    details: bytes | None,
) -> None:
    error = NodeError("retryable", "RuntimeError", "it broke", details, node="lookup")

    assert decode_error(encode_error(error)) == error


@pytest.mark.parametrize("details", [b"{", b'"\\ud800"', b"\x00", b"\xff"])
def test_details_that_are_no_json_are_kept_as_text_that_can_be_read_back_f100(
    details: bytes,
) -> None:
    error = reported_error("retryable", "E", "it broke", details)

    assert error.details is not None
    assert decode_error(encode_error(error)) == error
