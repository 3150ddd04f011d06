"""The ring of orgs that a relay walks, pass by pass."""

import uuid
from collections.abc import Sequence

import pytest
from perdure_relay.turns import Walk, ring_from, walk
from perdure_store.outbox import ReadyOrg, ReadyRow
from perdure_streams.turn import Turn

RUN = uuid.UUID("01890000-0000-7000-8000-000000000001")


def rows_of(org: str, count: int, first_id: int = 1) -> list[ReadyRow]:
    return [ReadyRow(first_id + n, org, RUN, 1, None) for n in range(count)]


def orgs_in(rows: Sequence[ReadyRow]) -> str:
    return "".join(row.org for row in rows)


def go(waiting: str, places: int, turn: Turn = Turn(), *, limit: int = 64, **weights: int) -> Walk:  # noqa: B008
    """Walk over as many rows of each org as its letter stands in `waiting`."""
    orgs = sorted(set(waiting), key=lambda org: (org < turn.org, org))[:limit]
    found = [ReadyOrg(org, weights.get(org, 1)) for org in orgs]
    ring = ring_from(found, turn, limit)
    picked = [
        row
        for seat, share in zip(ring.seats, ring.shares(places), strict=True)
        for row in rows_of(seat.org, min(share, waiting.count(seat.org)))
    ]
    return walk(ring, picked, turn, places)


def test_f071_the_row_of_a_quiet_org_is_not_behind_those_of_a_busy_one() -> None:
    assert orgs_in(go("aaaaab", 2).rows) == "ab"


def test_rows_of_an_org_keep_their_order() -> None:
    assert [row.outbox_id for row in go("aaaa", 3).rows] == [1, 2, 3]


def test_a_turn_is_worth_as_many_rows_as_the_org_weighs() -> None:
    assert orgs_in(go("a" * 9 + "b" * 9, 8, a=3).rows) == "aaabaaab"


def test_the_ring_goes_on_where_the_pass_before_ended() -> None:
    turn, served = Turn(), ""
    for _ in range(9):
        one = go("a" * 9 + "b" * 9 + "c" * 9, 1, turn, b=2)
        turn, served = one.turn, served + orgs_in(one.rows)
    assert served == "abbcabbca"


def test_a_turn_that_was_broken_off_is_ended_first() -> None:
    first = go("a" * 9 + "b" * 9, 2, a=3)
    assert orgs_in(first.rows) == "aa"
    assert orgs_in(go("a" * 9 + "b" * 9, 4, first.turn, a=3).rows) == "abaa"


def test_orgs_beyond_one_pass_come_next() -> None:
    first = go("abc", 9, limit=2)
    assert orgs_in(first.rows) == "ab"
    assert first.more
    assert orgs_in(go("c", 9, first.turn, limit=2).rows) == "c"


def test_an_org_that_had_its_turn_is_left_out_while_others_wait_behind_it() -> None:
    assert orgs_in(go("abcd", 9, Turn("a", 1), limit=3).rows) == "bc"


def test_a_pass_that_left_room_and_rows_is_followed_at_once() -> None:
    one = go("a" * 9 + "b", 8)
    assert orgs_in(one.rows) == "abaaa"
    assert one.more
    assert not go("aaaa", 9).more
    assert not go("a" * 9, 5).more


def test_what_an_org_leaves_of_its_turn_goes_to_the_next() -> None:
    assert orgs_in(go("ab", 9, a=100).rows) == "ab"


def test_orgs_without_rows_of_this_shard_are_passed_over() -> None:
    ring = ring_from([ReadyOrg("a", 1), ReadyOrg("b", 1)], Turn(), 64)
    done = walk(ring, rows_of("b", 1), Turn(), 5)
    assert (orgs_in(done.rows), done.turn, done.more) == ("b", Turn("b", 1), False)


def test_a_page_of_orgs_without_rows_of_this_shard_is_gone_beyond() -> None:
    ring = ring_from([ReadyOrg("a", 1), ReadyOrg("b", 1)], Turn(), 2)
    done = walk(ring, [], Turn(), 5)
    assert (done.turn, done.more) == (Turn("b", 1), False)


def test_nothing_ready_is_no_turn() -> None:
    done = go("", 5)
    assert (done.rows, done.turn, done.more) == ([], Turn(), False)


@pytest.mark.parametrize("turn", [Turn(), Turn("acme", 3), Turn("a:b", 1), Turn("émilie", 100)])
def test_a_turn_is_kept_as_it_is(turn: Turn) -> None:
    assert Turn.decode(turn.encode()) == turn


@pytest.mark.parametrize("kept", [None, b"", b"x:acme", b"acme", b"-1:acme", b"\xff:a"])
def test_what_is_no_turn_is_nobodys(kept: bytes | None) -> None:
    assert Turn.decode(kept) == Turn()
