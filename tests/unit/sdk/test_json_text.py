"""Messages as JSON: payloads spliced in byte for byte (R12, F103)."""

from __future__ import annotations

import json

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure.jsontext import to_json
from perdure_contracts.v1 import run_pb2
from perdure_contracts.v1.run_pb2 import HistoryEvent, Run, RunError, Step
from perdure_contracts.v1.workflow_pb2 import Workflow
from perdure_contracts.v1.workflow_service_pb2 import PublishWorkflowResponse

AT = Timestamp(seconds=1_780_000_000, nanos=5_000_000)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(values)
def test_any_payload_comes_back_as_it_went_in(value: object) -> None:
    payload = json.dumps(value).encode()
    text = to_json(Run(input=payload))
    assert payload in text
    assert json.loads(text)["input"] == value


def test_f103_no_number_passes_through_a_float() -> None:
    payload = b'{"z": 18446744073709551616, "a": 1970670598291982290, "f": 1e400, "n": -0}'
    assert to_json(Run(output=payload)).count(payload) == 1
    assert json.loads(to_json(Run(revision=2**63 - 1)))["revision"] == 2**63 - 1


def test_names_words_instants_and_what_is_absent() -> None:
    run = Run(
        run_id="r", status=run_pb2.RUN_STATUS_TIMED_OUT, created_at=AT, tags={"\N{SNOWMAN}": '"'}
    )
    run.steps.append(Step(step=1, status=run_pb2.STEP_STATUS_BACKING_OFF))
    shown = json.loads(to_json(run))
    assert shown["status"] == "timed_out"
    assert shown["created_at"] == "2026-05-28T20:26:40.005000Z"
    assert shown["tags"] == {"\N{SNOWMAN}": '"'}
    assert shown["steps"][0]["status"] == "backing_off"
    assert (shown["ended_at"], shown["error"], shown["input"]) == (None, None, None)
    assert json.loads(to_json(Run()))["status"] is None


def test_an_unknown_status_of_a_newer_server_is_its_number() -> None:
    assert json.loads(to_json(Run(status=99)))["status"] == "99"  # type: ignore[arg-type]


def test_errors_details_digests_and_documents() -> None:
    error = RunError(code="X", details=b'{"n": 1.0}')
    setattr(error, "class", "permanent")
    shown = json.loads(to_json(Run(error=error)))["error"]
    assert (shown["class"], shown["details"]) == ("permanent", {"n": 1.0})
    workflow = Workflow(digest=b"\x00\xff", document="é: 1\n".encode())
    nested = json.loads(to_json(PublishWorkflowResponse(workflow=workflow)))["workflow"]
    assert (nested["digest"], nested["document"]) == ("00ff", "é: 1\n")
    assert b'"details": [2]' in to_json(HistoryEvent(details=b"[2]"))
