"""Rows as messages, and lines of history in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from perdure_contracts.v1 import run_pb2
from perdure_ingest.doctor.words import in_words
from perdure_ingest.start_keys import own_start_key, shown_start_key
from perdure_ingest.views.history import history_event
from perdure_ingest.views.runs import whole_run
from perdure_machine.states import RunStatus, StepStatus
from perdure_store.reads.rows import HistoryRow, RunRow, RunSnapshot, StepRow

NOW = datetime(2026, 5, 31, 12, 0, 0, 123456, tzinfo=UTC)
RUN_ID = UUID("01234567-89ab-7def-8123-456789abcdef")


def run_row(status: str = "running") -> RunRow:
    return RunRow(
        run_id=RUN_ID,
        org="acme",
        workflow="w",
        workflow_version=3,
        status=status,
        error=None,
        start_key=None,
        tags=b'{"a": "\\u00e9"}',
        priority=-5,
        created_at=NOW,
        ended_at=None,
        deadline_at=NOW,
        start_at=None,
        begun_at=NOW,
        exclusive_key="k",
        waits_for=None,
        revision=2**40,
        traceparent=None,
        paused=True,
        input=b"18446744073709551616",
    )


def step_row(status: str = "queued") -> StepRow:
    return StepRow(
        step=1,
        node="n",
        scope="batch[1]",
        kind="task",
        status=status,
        lane="io",
        owner="acme",
        failures=2,
        losses=1,
        fence=4,
        worker=None,
        input=b"1",
        output=None,
        error=None,
        created_at=NOW,
        started_at=None,
        ended_at=None,
        due_at=NOW,
        deadline_at=NOW,
        parked_on="pause",
    )


@pytest.mark.parametrize("status", list(RunStatus))
def test_every_state_of_a_run_has_its_message(status: str) -> None:
    snapshot = RunSnapshot(run_row(status), (), (), ())
    shown = whole_run(snapshot, with_payloads=True).status
    assert run_pb2.RunStatus.Name(shown) == f"RUN_STATUS_{status.upper()}"


@pytest.mark.parametrize("status", list(StepStatus))
def test_every_state_of_a_step_has_its_message(status: str) -> None:
    snapshot = RunSnapshot(run_row(), (step_row(status),), (), ())
    shown = whole_run(snapshot, with_payloads=True).steps[0].status
    assert run_pb2.StepStatus.Name(shown) == f"STEP_STATUS_{status.upper()}"


def test_a_run_is_shown_with_what_people_count() -> None:
    snapshot = RunSnapshot(run_row(), (step_row(),), (), ())
    run = whole_run(snapshot, with_payloads=True)
    assert (run.run_id, run.revision, run.priority) == (str(RUN_ID), 2**40, -5)
    assert run.input == b"18446744073709551616"
    assert (run.paused, run.steps[0].parked_on) == (True, "pause")
    assert dict(run.tags) == {"a": "\u00e9"}
    assert run.created_at.ToMicroseconds() % 1_000_000 == 123456
    step = run.steps[0]
    assert (step.attempt, step.failures, step.losses, step.fence) == (3, 2, 1, 4)
    assert (step.queue, step.scope) == ("io:acme", "batch[1]")


def test_own_start_keys_are_hidden_and_all_different() -> None:
    assert own_start_key() != own_start_key()
    assert shown_start_key(own_start_key()) == ""
    assert [shown_start_key(key) for key in (None, "k", "call")] == ["", "k", "call"]
    assert shown_start_key("child:01234567-89ab-7def-8123-456789abcdef/1/0") == ""


def test_a_child_is_shown_with_its_parent_and_a_parent_with_its_child() -> None:
    run = replace(run_row(), parent_run=RUN_ID, parent_step=3, awaited_children=2)
    step = replace(step_row(), child_run=RUN_ID)
    shown = whole_run(RunSnapshot(run, (step,), (), ()), with_payloads=False)
    assert (shown.parent_run_id, shown.parent_step, shown.awaited_children) == (str(RUN_ID), 3, 2)
    assert shown.steps[0].child_run_id == str(RUN_ID)
    alone = whole_run(RunSnapshot(run_row(), (step_row(),), (), ()), with_payloads=False)
    assert (alone.parent_run_id, alone.parent_step) == ("", 0)
    assert alone.steps[0].child_run_id == ""


def test_a_line_of_history_speaks_and_keeps_its_details() -> None:
    details = b'{"code": "TIMEOUT", "n": 18446744073709551616}'
    row = HistoryRow(7, NOW, "step_failed", 1, "send", "", 3, details)
    event = history_event(row)
    assert event.text == "`send` failed: TIMEOUT"
    assert (event.seq, event.step, event.fence, event.details) == (7, 1, 3, details)


def test_a_kind_of_a_newer_release_is_shown_by_its_name() -> None:
    row = HistoryRow(1, NOW, "run_teleported", None, None, None, None, None)
    assert history_event(row).text == "run teleported"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (3600, "1 h"), (93784, "1 d 2 h"), (-5, "0 s")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(timedelta(seconds=seconds)) == words
