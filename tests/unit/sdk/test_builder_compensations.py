"""Compensations in a workflow that is written in Python."""

from __future__ import annotations

import json

import perdure.workflow as wf
from perdure_machine.definition import parse


def test_a_compensation_is_written_on_its_node_and_on_a_finish() -> None:
    charge, end = wf.Node("charge"), wf.Node("end")
    undo = wf.Compensation(wf.Task("refund", wf.THIS["output"], retry=wf.Retry(max=8)), "attempted")
    flow = wf.Workflow(
        "order",
        {
            charge: wf.Task("charge", compensate=undo),
            end: wf.Finish(needs=[charge], compensate=True),
        },
        compensate_on_cancel=True,
    )
    written = json.loads(flow.to_json())
    assert written["nodes"]["charge"]["compensate"] == {
        "task": {"handler": "refund", "input": "${this.output}"},
        "retry": {"max": 8},
        "when": "attempted",
    }
    assert written["nodes"]["end"] == {"needs": ["charge"], "finish": {"compensate": True}}
    assert parse(flow.to_json().encode(), known_lanes=frozenset({"io"})).compensate_on_cancel
