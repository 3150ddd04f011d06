import uuid

import pytest
from perdure_relay.decisions import lost, room
from perdure_store.outbox import SentRow
from perdure_streams.announce import Announced
from perdure_streams.message import Hint

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("announced", "shards", "depth", "places"),
    [
        (Announced(workers=0, free=0), 1, 0, 0),
        (Announced(workers=1, free=0), 1, 0, 2),
        (Announced(workers=1, free=0), 1, 2, 0),
        (Announced(workers=2, free=10), 1, 3, 9),
        (Announced(workers=2, free=10), 3, 0, 6),
        (Announced(workers=9, free=5000), 1, 100, 900),
        (Announced(workers=1, free=1), 1, 50, 0),
    ],
)
def test_p2_room_is_the_share_of_free_slots_and_a_buffer_below_the_ceiling(
    announced: Announced, shards: int, depth: int, places: int
) -> None:
    assert room(announced, shards=shards, depth=depth, ceiling=1000, buffer=2) == places


def test_p2_a_row_is_lost_when_its_entry_is_gone_or_is_another_step() -> None:
    kept, gone, mistaken = (SentRow(n, RUN, n, f"{n}-0") for n in (1, 2, 3))
    found = {"1-0": Hint("a", RUN, 1), "3-0": Hint("a", RUN, 99)}
    assert lost([kept, gone, mistaken], found) == [gone, mistaken]
