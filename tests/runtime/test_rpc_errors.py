import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]
from grpc.aio import AioRpcError, Metadata
from perdure_runtime.errors import (
    KINDS,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    ResourceExhausted,
    RetryableError,
    Unavailable,
)
from perdure_runtime.rpc.errors import (
    DETAILS_KEY,
    MAX_STATUS_BYTES,
    OMITTED,
    from_call_error,
    from_status,
    to_status,
)


def round_trip(error: PerdureError) -> PerdureError:
    return from_status(to_status(error), grpc.StatusCode[error.code])


def transport_error(code: grpc.StatusCode, details: str = "") -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_travels_with_reason_and_metadata(kind: type[PerdureError]) -> None:
    sent = kind("told", reason=Reason.RETRY, metadata={"run_id": "0190"})
    received = round_trip(sent)
    assert type(received) is kind
    assert (received.message, received.reason, dict(received.metadata)) == (
        "told",
        Reason.RETRY,
        {"run_id": "0190"},
    )


def test_violations_travel() -> None:
    violations = (
        FieldViolation("nodes[2].needs", "names no node"),
        FieldViolation("name", "empty"),
    )
    received = round_trip(InvalidArgument("bad", violations=violations))
    assert isinstance(received, InvalidArgument)
    assert received.violations == violations


@pytest.mark.parametrize("wait", [None, 0.0, 0.05, 90.0])
def test_f043_the_wait_that_was_asked_for_travels(wait: float | None) -> None:
    received = round_trip(ResourceExhausted("slow", reason=Reason.RATE_LIMITED, retry_after=wait))
    assert isinstance(received, RetryableError)
    assert received.retry_after == wait


def test_f093_a_status_keeps_room_in_its_trailer_whatever_the_error_holds() -> None:
    many = [FieldViolation(f"nodes[{index}]" * 50, "é" * 1000) for index in range(500)]
    error = InvalidArgument("ü" * 5000, metadata={"why": "x" * 5000}, violations=many)
    status = to_status(error)
    assert status.ByteSize() <= MAX_STATUS_BYTES
    received = from_status(status, grpc.StatusCode.INVALID_ARGUMENT)
    assert isinstance(received, InvalidArgument)
    assert len(received.violations) + int(received.metadata[OMITTED]) == 500
    assert received.violations


def test_a_reason_of_a_newer_release_keeps_its_kind_and_its_name() -> None:
    status = to_status(NotFound("gone", reason=Reason.RUN_NOT_FOUND))
    info = ErrorInfo(reason="MOON_NOT_FOUND", domain="perdure.dev")
    status.details[0].Pack(info)
    received = from_status(status, grpc.StatusCode.NOT_FOUND)
    assert type(received) is NotFound
    assert received.metadata["reason"] == "MOON_NOT_FOUND"


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code.name != "OK"])
def test_every_status_without_details_has_a_meaning(code: grpc.StatusCode) -> None:
    error = from_call_error(transport_error(code, "told by a proxy"))
    assert type(error) in KINDS
    assert error.message == "told by a proxy"


def test_a_lost_connection_is_unavailable_and_a_fault_is_not() -> None:
    lost = from_call_error(transport_error(grpc.StatusCode.UNAVAILABLE))
    assert (type(lost), lost.reason) == (Unavailable, Reason.PEER_UNAVAILABLE)
    fault = from_call_error(transport_error(grpc.StatusCode.UNKNOWN))
    assert (type(fault), fault.reason) == (Internal, Reason.INTERNAL)


def test_f091_a_message_over_the_limit_is_a_size_error_and_not_a_rate() -> None:
    text = "SERVER: Received message larger than max (5000000 vs. 4194304)"
    error = from_call_error(transport_error(grpc.StatusCode.RESOURCE_EXHAUSTED, text))
    assert (type(error), error.reason) == (InvalidArgument, Reason.PAYLOAD_TOO_LARGE)


def test_details_of_another_domain_are_not_taken_for_ours() -> None:
    status = to_status(NotFound("gone", reason=Reason.RUN_NOT_FOUND))
    status.details[0].Pack(ErrorInfo(reason="RUN_CLOSED", domain="elsewhere.example"))
    assert from_status(status, grpc.StatusCode.UNAVAILABLE).reason is Reason.PEER_UNAVAILABLE


def test_a_damaged_trailer_falls_back_to_the_code() -> None:
    error = AioRpcError(
        grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata((DETAILS_KEY, b"\xff\xff")), "x"
    )
    assert type(from_call_error(error)) is Unavailable
