"""One screen for one run: the line that says whether it is stuck."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from perdure.cli.changes import Changes
from perdure.cli.output import duration, one_line, table_lines
from perdure.cli.timeline import child_lines, standing, timeline
from perdure.start_keys import OWN_KEY_PREFIX
from perdure_contracts.v1 import run_pb2
from perdure_contracts.v1.run_pb2 import Attempt, Effect, Run, RunError, Step

NOW = datetime(2026, 5, 31, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(NOW + timedelta(seconds=seconds))
    return message


def step(**members: Any) -> Step:
    usual: dict[str, Any] = {"step": 1, "node": "send", "created_at": at(-60)}
    return Step(**(usual | members))


def running(*steps: Step) -> Run:
    return Run(
        run_id="r", workflow="w", status=run_pb2.RUN_STATUS_RUNNING, created_at=at(-60), steps=steps
    )


@pytest.mark.parametrize(
    ("step_", "expected"),
    [
        (
            step(status=run_pb2.STEP_STATUS_QUEUED, queue="io:shared"),
            "`send` waits for a worker of io:shared for 1 min",
        ),
        (
            step(status=run_pb2.STEP_STATUS_RUNNING, worker="w-1", started_at=at(-3)),
            "`send` runs at w-1 for 3.0 s",
        ),
        (
            step(
                status=run_pb2.STEP_STATUS_BACKING_OFF,
                due_at=at(40),
                error=RunError(code="TIMEOUT"),
            ),
            "`send` is tried again at 2026-05-31 12:00:40Z (in 40.0 s) after TIMEOUT",
        ),
        (
            step(status=run_pb2.STEP_STATUS_WAITING, due_at=at(7200), scope="batch[17]"),
            "`batch[17].send` waits until 2026-05-31 14:00:00Z (in 2 h)",
        ),
        (
            step(status=run_pb2.STEP_STATUS_WAITING, due_at=at(-120)),
            "`send` waits since 2026-05-31 11:58:00Z, which has passed: run `perdure doctor`",
        ),
        (step(status=run_pb2.STEP_STATUS_PARKED, parked_on="pause"), "`send` is parked on pause"),
        (
            step(
                status=run_pb2.STEP_STATUS_WAITING,
                waits_for=run_pb2.SignalWait(name="reply", key="offer-7"),
                deadline_at=at(60),
            ),
            "`send` waits for the signal reply by the key offer-7, but not after"
            " 2026-05-31 12:01:00Z",
        ),
        (
            step(status=run_pb2.STEP_STATUS_WAITING, waits_for=run_pb2.SignalWait(name="reply")),
            "`send` waits for the signal reply, without a deadline",
        ),
        (
            step(status=run_pb2.STEP_STATUS_WAITING, kind="run"),
            "`send` waits for its run to start",
        ),
        (
            step(status=run_pb2.STEP_STATUS_WAITING, kind="run", child_run_id="c"),
            "`send` waits for run c",
        ),
        (
            step(
                status=run_pb2.STEP_STATUS_PARKED,
                parked_on="pause",
                deadline_at=at(60),
            ),
            "`send` is parked on pause, but not after 2026-05-31 12:01:00Z",
        ),
    ],
)
def test_what_a_run_waits_for_is_one_line(step_: Step, expected: str) -> None:
    assert standing(running(step_), NOW) == expected


def test_a_step_that_nobody_takes_points_to_the_doctor_counted_from_its_last_try() -> None:
    queued = step(status=run_pb2.STEP_STATUS_QUEUED, queue="io:shared", created_at=at(-900))
    assert standing(running(queued), NOW).endswith("for 15 min: run `perdure doctor`")
    queued.attempts.add(outcome="lost", started_at=at(-60), ended_at=at(-2))
    assert standing(running(queued), NOW).endswith("for 2.0 s")


def test_a_key_that_the_client_made_is_not_shown() -> None:
    run = running()
    run.start_key = "order-7"
    assert "key order-7" in "\n".join(timeline(run, NOW))
    run.start_key = f"{OWN_KEY_PREFIX}{NOW}"
    assert "key" not in "\n".join(timeline(run, NOW))


def test_a_run_that_was_put_off_says_when_it_begins_and_counts_from_then() -> None:
    run = running()
    run.start_at.CopyFrom(at(7200))
    assert standing(run, NOW) == "begins at 2026-05-31 14:00:00Z (in 2 h)"
    assert "to begin 2026-05-31 14:00:00Z" in "\n".join(timeline(run, NOW))
    run.start_at.CopyFrom(at(-120))
    assert "which has passed: run `perdure doctor`" in standing(run, NOW)
    run.begun_at.CopyFrom(at(-30))
    run.ended_at.CopyFrom(at(0))
    assert standing(run, NOW) == "running after 30.0 s"


def test_a_run_that_waits_for_its_key_names_who_has_it() -> None:
    run = running()
    run.exclusive_key, run.waits_for_run_id = "acme", "r-1"
    assert standing(run, NOW) == "waits behind run r-1 for `acme`"
    assert "exclusive acme" in "\n".join(timeline(run, NOW))


def test_the_deadline_of_a_run_is_shown() -> None:
    run = running()
    run.deadline_at.CopyFrom(at(3600))
    assert "deadline 2026-05-31 13:00:00Z" in "\n".join(timeline(run, NOW))


def test_a_run_that_nothing_moves_points_to_the_doctor() -> None:
    done = step(status=run_pb2.STEP_STATUS_COMPLETED, ended_at=at(-1))
    assert "perdure doctor" in standing(running(done), NOW)


def test_a_run_whose_end_waits_for_children_says_so() -> None:
    run = running(step(status=run_pb2.STEP_STATUS_COMPLETED, ended_at=at(-1)))
    run.awaited_children = 2
    assert standing(run, NOW) == "every node has ended; its end waits for 2 child runs"


def test_a_run_is_shown_with_its_parent_and_its_children() -> None:
    run = running(step(node="call", kind="run", step=4))
    run.parent_run_id = "p"
    assert "child of p" in "\n".join(timeline(run, NOW))
    child = Run(
        run_id="c", workflow="w", workflow_version=2, status=run_pb2.RUN_STATUS_FAILED,
        parent_step=4, error=RunError(code="BOOM"),
    )  # fmt: skip
    lines = [click.unstyle(line).split() for line in child_lines(run, [child])]
    assert lines[1] == ["c", "call", "w", "v2", "failed", "BOOM"]


def test_a_paused_run_is_shown_paused_with_the_way_out() -> None:
    run = running(step(status=run_pb2.STEP_STATUS_PARKED, parked_on="pause"))
    run.paused = True
    assert "perdure run resume r" in standing(run, NOW)
    assert "paused" in timeline(run, NOW)[0]


def test_many_unfinished_steps_are_counted() -> None:
    line = standing(
        running(*(step(step=n, status=run_pb2.STEP_STATUS_PARKED) for n in range(1, 6))), NOW
    )
    assert line.endswith("and 2 more")


def test_an_ended_run_says_how_and_after_what_time() -> None:
    run = Run(status=run_pb2.RUN_STATUS_TIMED_OUT, created_at=at(-90), ended_at=at(0))
    assert standing(run, NOW) == "timed out after 1 min 30 s"


def test_the_screen_shows_tries_losses_effects_and_errors() -> None:
    lost = Attempt(fence=1, worker="w-1", outcome="lost", started_at=at(-50), ended_at=at(-40))
    won = Attempt(fence=2, worker="w-2", outcome="completed", started_at=at(-30), ended_at=at(-29))
    error = RunError(code="BOOM", message="it\nbroke", node="send")
    setattr(error, "class", "permanent")
    run = Run(
        run_id="r",
        workflow="w",
        workflow_version=2,
        status=run_pb2.RUN_STATUS_FAILED,
        error=error,
        created_at=at(-60),
        ended_at=at(0),
        input=b'{"n": 18446744073709551616}',
        steps=[
            step(
                kind="http",
                status=run_pb2.STEP_STATUS_COMPLETED,
                queue="io:shared",
                attempt=1,
                fence=2,
                started_at=at(-30),
                ended_at=at(-29),
                attempts=[lost, won],
            )
        ],
        effects=[
            Effect(key="r/send", kind="provider", status="settled", calls=2, begun_at=at(-50))
        ],
    )
    lines = [click.unstyle(line) for line in timeline(run, NOW)]
    text = "\n".join(lines)
    assert "w v2  failed" in lines[0]
    assert "error    BOOM (permanent) at `send`: it broke" in lines
    assert any("lost" in line and "w-1" in line and "10.0 s" in line for line in lines)
    assert any("completed" in line and "w-2" in line and "1.0 s" in line for line in lines)
    assert any("r/send" in line and "settled" in line and "2" in line for line in lines)
    assert '{"n": 18446744073709551616}' in text
    assert "w-1" in text
    assert text.count("w-2") == 1


def test_a_step_that_failed_for_good_shows_its_last_try_and_its_whole_error() -> None:
    advice = "this worker has no such handler; it has others. " + "Start workers that have it. " * 4
    failed = step(
        status=run_pb2.STEP_STATUS_FAILED,
        queue="io:shared",
        attempt=4,
        failures=3,
        fence=7,
        ended_at=at(0),
        error=RunError(code="HANDLER_UNKNOWN", message=advice),
    )
    [line] = [each for each in timeline(running(failed), NOW) if "HANDLER_UNKNOWN" in each]
    shown = click.unstyle(line).split()
    assert shown[shown.index("failed") + 1 :][:2] == ["3", "7"]
    assert line.endswith(advice.strip())


def test_a_watch_prints_each_change_once() -> None:
    changes = Changes()
    queued = running(step(status=run_pb2.STEP_STATUS_QUEUED, queue="io:shared"))
    leased = running(
        step(status=run_pb2.STEP_STATUS_RUNNING, fence=1, worker="w-1", started_at=at(0))
    )
    done = running(step(status=run_pb2.STEP_STATUS_COMPLETED, fence=1, ended_at=at(1)))
    done.status = run_pb2.RUN_STATUS_COMPLETED
    done.ended_at.CopyFrom(at(2))
    seen = [len(list(changes.lines(run))) for run in (queued, queued, leased, leased, done)]
    assert seen == [1, 0, 1, 0, 2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0421, "42 ms"), (3.21, "3.2 s"), (61, "1 min 1 s"), (90061, "1 d 1 h"), (-1, "0 ms")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_columns_ignore_colour_codes() -> None:
    lines = table_lines(("a", "b"), [(click.style("xx", fg="red"), "1"), ("y", "2")])
    assert [click.unstyle(line) for line in lines] == ["a   b", "xx  1", "y   2"]
    assert one_line("a\n  b" + "c" * 100, 5) == "a bc…"


def test_a_failed_run_shows_where_its_handler_raised() -> None:
    trace = '  File "/a/greetings.py", line 9, in greet\n    look_up(given)\n'
    trace += '  File "/a/greetings.py", line 13, in look_up\n    return known[name]\n'
    details = json.dumps({"type": "KeyError", "traceback": trace}).encode()
    error = run_pb2.RunError(code="KeyError", message="'x'", details=details, node="b")
    failed = run_pb2.Run(status=run_pb2.RUN_STATUS_FAILED, error=error)
    shown = "\n".join(timeline(failed, datetime(2026, 1, 1, tzinfo=UTC)))
    assert 'File "/a/greetings.py", line 13, in look_up' in shown
    assert "return known[name]" in shown
    assert "line 9" not in shown
