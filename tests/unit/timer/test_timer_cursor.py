"""The cursor that takes orgs in turn."""

from uuid import UUID

from perdure_store.timers import NearTimer
from perdure_timer.cursor import FIRST, ORGS_A_PASS, next_cursor, soonest

RUN = UUID(int=1)


def timers(*orgs: str, remaining: float = -1.0) -> list[NearTimer]:
    return [NearTimer(place, org, RUN, remaining, -remaining) for place, org in enumerate(orgs)]


FULL = timers(*(f"org{number:02}" for number in range(ORGS_A_PASS)))


def test_a_full_pass_is_followed_behind_its_last_org() -> None:
    assert next_cursor(FULL) == "org19"


def test_f071_the_last_org_is_the_databases_last_whatever_the_collation() -> None:
    orgs = [f"a{number:02}" for number in range(ORGS_A_PASS - 1)]
    assert next_cursor(timers(*orgs, "B")) == "B"
    assert next_cursor(timers("B", *orgs)) == "a18"


def test_a_short_pass_begins_again_at_the_front() -> None:
    assert next_cursor(FULL[:-1]) == FIRST
    assert next_cursor([]) == FIRST


def test_the_next_pass_comes_when_the_soonest_is_due() -> None:
    near = timers("a", remaining=0.03) + timers("b", remaining=0.01) + timers("c", remaining=-1.0)
    assert soonest(near) == 0.01
    assert soonest(timers("c")) is None
