"""Kill each service at each line where something is committed or sent, start it again, and look.

The run ends, every step has exactly one applied result, the outside work was done under one key,
and nothing is left behind.
"""

from __future__ import annotations

import pytest
from perdure_stack.services import SERVICES

from tests.crash.matrix import Entry, declared_points, entries, owners_of
from tests.crash.scenarios import SCENARIOS
from tests.crash.stage import Stage

SERVICE_ENTRIES = [
    pytest.param(entry, id=str(entry)) for entry in entries() if entry.owner in SERVICES
]


def test_every_fail_point_has_an_owner_and_a_way_to_reach_it() -> None:
    without = [
        point
        for point in declared_points()
        if not owners_of(point)
        or (not set(SERVICES).isdisjoint(owners_of(point)) and point not in SCENARIOS)
    ]

    assert without == []


def test_no_scenario_is_of_a_point_that_is_gone() -> None:
    assert SCENARIOS.keys() - set(declared_points()) == set()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("entry", SERVICE_ENTRIES)
async def test_a_run_survives_a_death_at(entry: Entry, stage: Stage) -> None:
    await SCENARIOS[entry.point](stage, entry)
