"""What people are told of an effect, and the commands that they are given."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from perdure.cli.effect_text import effect_row, effect_screen, key_life
from perdure.cli.timeline import standing, timeline
from perdure_contracts.v1 import effect_service_pb2 as pb
from perdure_contracts.v1 import run_pb2

NOW = datetime(2026, 5, 31, 12, 0, 0, tzinfo=UTC)
KEY = "r/fax/request"


def at(seconds: float) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(NOW + timedelta(seconds=seconds))
    return message


def entry(status: str = "needs_review", kind: str = "none", **members: Any) -> pb.EffectEntry:
    effect = run_pb2.Effect(key=KEY, step=3, kind=kind, status=status, calls=2, begun_at=at(-7200))
    usual: dict[str, Any] = {
        "run_id": "r",
        "workflow": "order",
        "workflow_version": 4,
        "run_status": run_pb2.RUN_STATUS_RUNNING,
        "effect": effect,
        "node": "fax",
        "step_status": run_pb2.STEP_STATUS_PARKED,
    }
    return pb.EffectEntry(**(usual | members))


def screen(shown: pb.EffectEntry, **members: Any) -> str:
    answer = pb.GetEffectResponse(effect=shown, **members)
    return click.unstyle("\n".join(effect_screen(answer, NOW)))


def test_an_effect_that_waits_for_a_person_is_shown_with_what_to_do() -> None:
    text = screen(entry(note="ReadTimeout: no answer in 30 s"))
    for part in (
        "run      r, order v4, running",
        "step     3, fax, parked",
        "status   needs review (none)",
        "calls    2, the first at 2026-05-31 10:00:00Z, 2 h ago",
        "said     ReadTimeout: no answer in 30 s",
        f"perdure effect settle {KEY} --result JSON  it was done",
        f"perdure effect repeat {KEY}                it was not done",
        f"perdure effect fail {KEY} ",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (entry("in_flight"), "nothing: a call may be open as long as its step's lease"),
        (
            entry("in_flight", call_expires_at=at(5)),
            "nothing: a call may be open until 2026-05-31 12:00:05Z",
        ),
        (entry("outcome_unknown", can_look_up=True), "nothing: a worker looks up what became"),
        (entry("outcome_unknown", "provider"), "nothing: it is repeated under its key"),
        (entry("settled"), "nothing: it is decided"),
    ],
)
def test_an_effect_that_waits_for_nobody_says_what_goes_on(
    shown: pb.EffectEntry, expected: str
) -> None:
    text = screen(shown)
    assert expected in text
    assert "perdure effect" not in text


def test_what_people_decided_and_the_result_are_shown() -> None:
    decision = pb.EffectDecision(
        decided_at=at(-60), decision="given_up", actor="ada", reason="the customer called"
    )
    text = screen(entry("settled"), result=b'{"id":7}', decisions=[decision])
    assert 'result   {"id":7}' in text
    assert "given up by ada at 2026-05-31 11:59:00Z: the customer called" in text


def test_the_life_of_a_key_is_told_in_both_directions() -> None:
    assert key_life(NOW + timedelta(hours=3), NOW) == "the provider keeps it for another 3 h"
    assert "may have forgotten it 2 h ago" in key_life(NOW - timedelta(hours=2), NOW)
    assert "another 1 h" in screen(entry(key_expires_at=at(3600)))


def test_a_list_names_key_age_and_what_was_said() -> None:
    row = [click.unstyle(each) for each in effect_row(entry(note="cut"), NOW)]
    assert row == [KEY, "none", "needs review", "2 h", "2", "order v4", "cut"]


def test_the_screen_of_a_run_names_the_step_that_waits_for_review_and_the_command() -> None:
    waiting = run_pb2.Step(
        step=3,
        node="fax",
        kind="http",
        status=run_pb2.STEP_STATUS_PARKED,
        parked_on="review",
        created_at=at(-60),
    )
    run = run_pb2.Run(
        run_id="r",
        workflow="order",
        status=run_pb2.RUN_STATUS_RUNNING,
        created_at=at(-60),
        steps=[waiting],
        effects=[entry().effect],
    )
    assert standing(run, NOW) == "`fax` waits for a person to say what became of its call"
    assert f"do this   perdure effect show {KEY}" in click.unstyle("\n".join(timeline(run, NOW)))
