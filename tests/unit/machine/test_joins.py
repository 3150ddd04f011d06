"""The table of joins: what each makes of the edges of a node, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from perdure_machine.decide.joins import Arrival, Turn, turn
from perdure_machine.definition import JoinKind

N, W, S, F = Arrival.OPEN, Arrival.WELL, Arrival.SKIPPED, Arrival.FAILED
ALL, STRICT, ANY = JoinKind.ALL, JoinKind.STRICT, JoinKind.ANY
QUORUM, SETTLED = JoinKind.QUORUM, JoinKind.SETTLED

TABLE: list[tuple[JoinKind, Sequence[Arrival], Turn]] = [
    (ALL, [], Turn.RUN),
    (ALL, [W, W], Turn.RUN),
    (ALL, [W, S], Turn.RUN),
    (ALL, [S, S], Turn.SKIP),
    (ALL, [W, F], Turn.CANCEL),
    (ALL, [S, F], Turn.CANCEL),
    (ALL, [W, N], Turn.WAIT),
    (ALL, [F, N], Turn.WAIT),
    (STRICT, [W, W], Turn.RUN),
    (STRICT, [W, S], Turn.SKIP),
    (STRICT, [S, S], Turn.SKIP),
    (STRICT, [W, F], Turn.CANCEL),
    (STRICT, [S, F], Turn.CANCEL),
    (STRICT, [S, N], Turn.WAIT),
    (ANY, [W, N], Turn.RUN),
    (ANY, [W, F, S], Turn.RUN),
    (ANY, [S, F, N], Turn.WAIT),
    (ANY, [S, S], Turn.SKIP),
    (ANY, [S, F], Turn.SKIP),
    (QUORUM, [W, W, N], Turn.RUN),
    (QUORUM, [W, W, F], Turn.RUN),
    (QUORUM, [W, N, N], Turn.WAIT),
    (QUORUM, [W, N, F], Turn.WAIT),
    (QUORUM, [W, S, F], Turn.SKIP),
    (QUORUM, [S, F, N], Turn.SKIP),
    (SETTLED, [W, S, F], Turn.RUN),
    (SETTLED, [F, F], Turn.RUN),
    (SETTLED, [W, N], Turn.WAIT),
]


@pytest.mark.parametrize(("join", "arrivals", "expected"), TABLE)
def test_a_row_of_the_table_of_joins_in_every_order(
    join: JoinKind, arrivals: Sequence[Arrival], expected: Turn
) -> None:
    for ordered in permutations(arrivals):
        assert turn(join, ordered, quorum=2 if join is QUORUM else 1) is expected


@pytest.mark.parametrize("join", list(JoinKind))
@pytest.mark.parametrize("rest", [W, S, F])
def test_a_decided_join_stays_decided_however_the_rest_ends(join: JoinKind, rest: Arrival) -> None:
    for arrivals in ([W, N], [S, N], [F, N], [W, W, N], [S, F, N]):
        decided = turn(join, arrivals, quorum=2 if join is QUORUM else 1)
        ended = [rest if arrival is N else arrival for arrival in arrivals]
        if decided is not Turn.WAIT:
            assert turn(join, ended, quorum=2 if join is QUORUM else 1) is decided
