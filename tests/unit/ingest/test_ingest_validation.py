"""What requests may hold: every rule by its field, all violations at once."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from perdure_contracts.v1.run_service_pb2 import ListRunsRequest, StartRunRequest
from perdure_ingest import limits
from perdure_ingest.handlers import list_runs, start_run
from perdure_ingest.validation import Check
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.gate.identity import Caller

CALLER = Caller("acme", "key deploys", frozenset())


def refusal(request: StartRunRequest | ListRunsRequest) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        checked(request)
    return caught.value


def checked(request: StartRunRequest | ListRunsRequest) -> object:
    if isinstance(request, StartRunRequest):
        return start_run.check(CALLER, request)
    return list_runs.check(request)


def fields(error: InvalidArgument) -> list[str]:
    return [violation.field for violation in error.violations]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"workflow": ""}, "workflow"),
        ({"workflow": "w" * 201}, "workflow"),
        ({"workflow": "a\x00b"}, "workflow"),
        ({"version": -1}, "version"),
        ({"input": b"{"}, "input"),
        ({"input": b"\xff"}, "input"),
        ({"input": b"{} {}"}, "input"),
        ({"input": b"[" * 101 + b"]" * 101}, "input"),
        ({"start_key": "k" * 201}, "start_key"),
        ({"start_key": "call:mine"}, "start_key"),
        ({"start_key": "child:mine"}, "start_key"),
        ({"start_key": "k\x00"}, "start_key"),
        ({"tags": {f"k{n}": "" for n in range(21)}}, "tags"),
        ({"tags": {"": "v"}}, "tags[''] key"),
        ({"tags": {"k": "v" * 201}}, "tags['k']"),
        ({"tags": {"k": "\x00"}}, "tags['k']"),
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"request_id": "r" * 201}, "request_id"),
    ],
)
def test_f102_a_start_that_breaks_a_rule_names_its_field(
    members: dict[str, Any], field: str
) -> None:
    assert fields(refusal(StartRunRequest(**({"workflow": "w"} | members)))) == [field]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"input": b'"\\u0000 \\ud800"'},
        {"input": b"18446744073709551616"},
        {"input": b"[" * 100 + b"]" * 100},
        {"start_key": "\N{SNOWMAN}" * 200},
        {"tags": {"k" * 60: "v" * 200}},
        {"priority": -100},
    ],
)
def test_what_the_contract_allows_passes_and_payloads_stay_bytes(members: dict[str, Any]) -> None:
    item = start_run.check(CALLER, StartRunRequest(**({"workflow": "w"} | members)))
    assert item.org == "acme"
    assert item.input == members.get("input", b"")


def test_everything_wrong_is_said_at_once() -> None:
    error = refusal(StartRunRequest(workflow="", input=b"{", priority=999, start_key="\x00"))
    assert fields(error) == ["workflow", "input", "start_key", "priority"]
    assert error.reason == Reason.FIELD_INVALID


def test_a_payload_that_alone_is_wrong_keeps_its_own_reason() -> None:
    invalid = refusal(StartRunRequest(workflow="w", input=b"{"))
    assert invalid.reason == Reason.PAYLOAD_INVALID
    large = refusal(StartRunRequest(workflow="w", input=b'"' + b"x" * (1 << 20) + b'"'))
    assert large.reason == Reason.PAYLOAD_TOO_LARGE
    assert large.metadata["limit"] == str(1 << 20)


def test_a_document_is_checked_for_size_and_encoding() -> None:
    for document, reason in (
        (b"", Reason.FIELD_INVALID),
        (b"\xff", Reason.FIELD_INVALID),
        (b"x" * (limits.MAX_DOCUMENT_BYTES + 1), Reason.PAYLOAD_TOO_LARGE),
    ):
        check = Check()
        check.document("document", document)
        with pytest.raises(InvalidArgument) as caught:
            check.refuse()
        assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ListRunsRequest(status=77), "status"),  # type: ignore[arg-type]
        (ListRunsRequest(page_size=-1), "page_size"),
        (ListRunsRequest(created_from=Timestamp(seconds=1 << 60)), "created_from"),
        (ListRunsRequest(created_before=Timestamp(nanos=-1)), "created_before"),
        (
            ListRunsRequest(
                created_from=Timestamp(seconds=10), created_before=Timestamp(seconds=9)
            ),
            "created_before",
        ),
    ],
)
def test_a_list_that_breaks_a_rule_names_its_field(request_: ListRunsRequest, field: str) -> None:
    assert fields(refusal(request_)) == [field]


@pytest.mark.parametrize(("asked", "given"), [(0, 100), (1, 1), (1000, 1000), (5000, 1000)])
def test_page_sizes_have_a_default_and_a_ceiling(asked: int, given: int) -> None:
    assert list_runs.check(ListRunsRequest(page_size=asked))[1] == given


def test_f056_run_ids_are_uuids_in_their_usual_form() -> None:
    check = Check()
    good = check.run_id("run_id", "01234567-89AB-cdef-0123-456789abcdef")
    check.refuse()
    assert str(good) == "01234567-89ab-cdef-0123-456789abcdef"
    for bad in ("", " ", "0" * 32, "urn:uuid:01234567-89ab-cdef-0123-456789abcdef"):
        check = Check()
        check.run_id("run_id", bad)
        with pytest.raises(InvalidArgument):
            check.refuse()
