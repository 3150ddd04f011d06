import uuid
from collections.abc import Sequence

import pytest
from perdure_relay.decisions import lost, room, share_of, take_turn
from perdure_store.outbox import ReadyRow, SentRow
from perdure_streams.announce import Announced
from perdure_streams.message import Hint

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")


def rows_of(org: str, count: int, first_id: int = 1) -> list[ReadyRow]:
    return [ReadyRow(first_id + n, org, RUN, 1, None) for n in range(count)]


def orgs_in(rows: Sequence[ReadyRow]) -> list[str]:
    return [row.org for row in rows]


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


def test_every_org_may_have_an_equal_share_and_at_least_one() -> None:
    assert share_of(10, 2) == 5
    assert share_of(10, 3) == 4
    assert share_of(3, 10) == 1


def test_f071_the_row_of_a_quiet_org_is_not_behind_those_of_a_busy_one() -> None:
    picked = rows_of("a", 5) + rows_of("b", 1, 100)
    turn = take_turn(["a", "b"], picked, places=10, share=5, limit=64)
    assert orgs_in(turn.rows) == ["a", "b", "a", "a", "a", "a"]


def test_rows_of_an_org_keep_their_order() -> None:
    turn = take_turn(["a"], rows_of("a", 4), places=3, share=4, limit=64)
    assert [row.outbox_id for row in turn.rows] == [1, 2, 3]


def test_who_got_no_place_is_first_in_the_next_pass() -> None:
    picked = [row for org in "abcd" for row in rows_of(org, 1)]
    turn = take_turn(list("abcd"), picked, places=2, share=1, limit=64)
    assert orgs_in(turn.rows) == ["a", "b"]
    assert turn.after == "b"


def test_when_all_were_served_another_org_is_first_in_the_next_pass() -> None:
    picked = rows_of("a", 1) + rows_of("b", 1)
    turn = take_turn(["a", "b"], picked, places=9, share=5, limit=64)
    assert turn.after == "a"


def test_orgs_beyond_one_pass_come_next() -> None:
    picked = rows_of("a", 1) + rows_of("b", 1)
    turn = take_turn(["a", "b"], picked, places=9, share=5, limit=2)
    assert turn.after == "b"
    assert turn.more


def test_a_pass_that_left_room_and_rows_is_followed_at_once() -> None:
    assert take_turn(["a"], rows_of("a", 5), places=9, share=5, limit=64).more
    assert not take_turn(["a"], rows_of("a", 4), places=9, share=5, limit=64).more
    assert not take_turn(["a"], rows_of("a", 5), places=5, share=5, limit=64).more


def test_orgs_without_rows_of_this_shard_are_passed_over() -> None:
    turn = take_turn(["a", "b"], rows_of("b", 1), places=5, share=3, limit=64)
    assert orgs_in(turn.rows) == ["b"]


def test_nothing_ready_is_no_turn() -> None:
    turn = take_turn([], [], places=5, share=5, limit=64)
    assert (turn.rows, turn.more) == ([], False)


def test_p2_a_row_is_lost_when_its_entry_is_gone_or_is_another_step() -> None:
    kept, gone, mistaken = (SentRow(n, RUN, n, f"{n}-0") for n in (1, 2, 3))
    found = {"1-0": Hint("a", RUN, 1), "3-0": Hint("a", RUN, 99)}
    assert lost([kept, gone, mistaken], found) == [gone, mistaken]
