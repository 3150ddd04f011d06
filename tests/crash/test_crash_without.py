"""The crash matrix without each technique of the hot path in turn: no rule rests on any of them."""

from __future__ import annotations

import pytest
from perdure_stack.services import SERVICES
from perdure_testkit.techniques import TECHNIQUES

from tests.crash.matrix import Entry, entries
from tests.crash.scenarios import SCENARIOS
from tests.crash.stage import Stage

CASES = [
    pytest.param(technique, entry, id=f"without {technique}-{entry}")
    for technique in TECHNIQUES
    for entry in entries()
    if entry.owner in SERVICES and entry.point not in technique.unpassed
]


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("matrix_stage", "entry"), CASES, indirect=["matrix_stage"])
async def test_a_run_survives_a_death_without_a_technique_at(entry: Entry, stage: Stage) -> None:
    await SCENARIOS[entry.point](stage, entry)
