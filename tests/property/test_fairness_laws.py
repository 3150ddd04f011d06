"""Fairness of the relay's ring over any arrivals, weights, rooms and sizes of a page."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_relay.turns import ring_from, walk
from perdure_store.outbox import ReadyOrg, ReadyRow
from perdure_streams.turn import Turn

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")
ORGS = "abcdef"

weights_of_orgs = st.fixed_dictionaries({org: st.integers(1, 4) for org in ORGS})
arrivals = st.dictionaries(st.sampled_from(ORGS), st.integers(1, 12), max_size=4)
ticks = st.lists(st.tuples(arrivals, st.integers(0, 9)), min_size=1, max_size=30)


@dataclass
class Model:
    """A database that holds numbers of rows, and everything that was sent of it."""

    weights: dict[str, int]
    orgs_per_pass: int
    waiting: Counter[str] = field(default_factory=Counter)
    turn: Turn = Turn()  # noqa: RUF009 - it is frozen

    def tick(self, places: int) -> list[str]:
        """Run passes until none is to follow at once; return the orgs of what was sent."""
        sent: list[str] = []
        while True:
            left = places - len(sent)
            if left == 0:
                return sent
            limit = min(left, self.orgs_per_pass) + 1
            ready = sorted(org for org, count in self.waiting.items() if count)
            ready.sort(key=lambda org: org < self.turn.org)
            found = [ReadyOrg(org, self.weights[org]) for org in ready[:limit]]
            ring = ring_from(found, self.turn, limit)
            picked = [
                ReadyRow(number, seat.org, RUN, 1, None)
                for seat, share in zip(ring.seats, ring.shares(left), strict=True)
                for number in range(min(share, self.waiting[seat.org]))
            ]
            done = walk(ring, picked, self.turn, left)
            self.turn = done.turn
            self.waiting.subtract(row.org for row in done.rows)
            sent += [row.org for row in done.rows]
            if not done.more:
                return sent


@settings(max_examples=80, deadline=None)
@given(weights_of_orgs, st.integers(1, 4), ticks)
def test_f071_between_two_rows_of_an_org_every_other_gets_at_most_its_weight(
    weights: dict[str, int], orgs_per_pass: int, happenings: list[tuple[dict[str, int], int]]
) -> None:
    model = Model(weights, orgs_per_pass)
    passed: dict[str, Counter[str]] = defaultdict(Counter)
    for arriving, places in happenings:
        for org, count in arriving.items():
            if not model.waiting[org]:
                passed[org].clear()  # its wait begins
            model.waiting[org] += count
        before = dict(model.waiting)
        for org in model.tick(places):
            for other, count in before.items():
                if other == org:
                    passed[other].clear()
                elif count:
                    passed[other][org] += 1
                    assert passed[other][org] <= weights[org], "it got a second turn"
            before[org] -= 1


@settings(max_examples=50, deadline=None)
@given(weights_of_orgs, st.integers(1, 4), ticks)
def test_no_place_stays_empty_while_a_row_waits(
    weights: dict[str, int], orgs_per_pass: int, happenings: list[tuple[dict[str, int], int]]
) -> None:
    model = Model(weights, orgs_per_pass)
    for arriving, places in happenings:
        model.waiting.update(arriving)
        waiting = model.waiting.total()
        assert len(model.tick(places)) == min(places, waiting)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_with_equal_weights_busy_orgs_get_equally_much(orgs: int, rooms: list[int]) -> None:
    model = Model(dict.fromkeys(ORGS, 1), 4, Counter(dict.fromkeys(ORGS[:orgs], 1000)))
    got = Counter(org for room in rooms for org in model.tick(room))
    shares = [got[org] for org in ORGS[:orgs]]
    assert max(shares) - min(shares) <= 1
