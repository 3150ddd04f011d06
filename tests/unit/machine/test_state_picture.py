"""The page with the states of steps and runs says what the table says, and all of it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

from perdure_machine.actions import PutStep
from perdure_machine.decide import decide_start
from perdure_machine.definition.parse import parse
from perdure_machine.events import Start
from perdure_machine.memory import DEFAULT_LANES
from perdure_machine.state_picture import CREATED, MEANINGS, RUN_ENDS, page
from perdure_machine.states import RunStatus, StepStatus
from perdure_machine.transitions import TABLE, Move

PAGE = Path(__file__).parents[3] / "docs" / "architecture" / "states.md"

ARROW = re.compile(r"^    (\w+) --> (\w+): (\w+)$", re.MULTILINE)


def test_the_page_of_the_states_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_the_arrows_of_the_page_are_the_moves_of_the_table() -> None:
    steps = page().partition("## Runs")[0]
    drawn = {(source, target, move) for source, target, move in ARROW.findall(steps)}
    assert drawn == {
        (source, transition.target, move)
        for move, transition in TABLE.items()
        for source in transition.sources
    }


def test_every_move_and_every_end_of_a_run_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Move)
    assert set(RUN_ENDS) | {RunStatus.RUNNING} == set(RunStatus)


def test_steps_are_created_in_the_states_that_the_page_names() -> None:
    nodes = {
        "task": {"task": {"handler": "some.thing"}},
        "wait": {"wait": "1s"},
        "transform": {"transform": 1},
        "skipped": {"when": "false", "transform": 1},
        "failed": {"transform": "${input.absent}"},
        "cancelled": {"needs": ["failed"], "transform": 1},
    }
    members = {"name": "all", "nodes": nodes, "on_error": "finish_others"}
    document = json.dumps(members).encode()
    definition = parse(document, known_lanes=frozenset(DEFAULT_LANES))
    decision = decide_start(definition, DEFAULT_LANES, _start())
    created = {action.step.status for action in decision.actions if isinstance(action, PutStep)}
    assert created == set(CREATED)
    assert set(CREATED) < set(StepStatus)


def _start() -> Start:
    return Start(
        run_id=uuid.UUID("01980000-0000-7000-8000-000000000001"),
        org="default",
        workflow_id=1,
        workflow_version=1,
        input=b"{}",
    )
