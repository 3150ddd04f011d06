import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure_runtime.clock import FakeClock
from perdure_runtime.election import (
    NEVER,
    Election,
    ElectionSettings,
    Leadership,
    pause_before_next,
    trusted_until,
)
from perdure_runtime.errors import Reason, Unavailable
from perdure_runtime.lifecycle import Service

SETTINGS = ElectionSettings(ttl=10.0, renew_every=3.0, margin=1.0, retry=0.5)


@dataclass
class MemoryLeases:
    """Leases by the fake clock, which stands for the database's; can hang, break, be late."""

    clock: FakeClock
    held: dict[str, tuple[str, float]] = field(default_factory=dict)
    broken: bool = False
    hanging: bool = False
    delay: float = 0.0
    asked: list[tuple[str, float]] = field(default_factory=list)
    cancelled: int = 0

    async def acquire_or_renew(self, name: str, holder: str, ttl: float) -> float | None:
        now = self.clock.monotonic()
        self.asked.append((holder, now))
        if self.broken:
            raise Unavailable("down", reason=Reason.STORE_UNAVAILABLE)
        await self._hang()
        owner, until = self.held.get(name, (holder, NEVER))
        if owner != holder and until > now:
            return None
        self.held[name] = (holder, now + ttl)
        if self.delay:
            await self.clock.sleep(self.delay)
        return ttl

    async def release(self, name: str, holder: str) -> None:
        if self.broken:
            raise Unavailable("down", reason=Reason.STORE_UNAVAILABLE)
        if self.held.get(name, ("", 0.0))[0] == holder:
            del self.held[name]

    async def _hang(self) -> None:
        try:
            while self.hanging:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def leases(clock: FakeClock) -> MemoryLeases:
    return MemoryLeases(clock)


def candidate(leases: MemoryLeases, holder: str) -> Election:
    return Election("timer", holder, leases, SETTINGS, clock=leases.clock, jitter=lambda: 0.0)


def leads(election: Election) -> bool:
    return election.leadership.is_leader


def changes(leadership: Leadership) -> list[bool]:
    heard = list[bool]()
    leadership.on_change(heard.append)
    return heard


async def test_one_of_two_candidates_leads(leases: MemoryLeases, clock: FakeClock) -> None:
    first, second = candidate(leases, "a"), candidate(leases, "b")
    await first.start()
    await first.leadership.wait_leader()
    await second.start()
    await clock.blocked(2)
    await clock.advance(60.0)
    assert (leads(first), leads(second)) == (True, False)
    await second.stop()
    await first.stop()


async def test_a_leader_that_stops_releases_and_the_next_leads(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    first, second = candidate(leases, "a"), candidate(leases, "b")
    await first.start()
    await first.leadership.wait_leader()
    await second.start()
    await clock.blocked(2)
    await first.stop()
    assert not leads(first)
    assert leases.held == {}
    await clock.advance(SETTINGS.renew_every)
    assert leads(second)
    await second.stop()


async def test_a_dead_leader_is_followed_when_its_lease_ends(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    leases.held["timer"] = ("dead", clock.monotonic() + SETTINGS.ttl)
    election = candidate(leases, "b")
    await election.start()
    await clock.blocked()
    await clock.advance(SETTINGS.ttl - 0.1)
    assert not leads(election)
    await clock.advance(SETTINGS.renew_every)
    assert leads(election)
    await election.stop()


async def test_r7_trust_counts_from_the_sending_of_the_request(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    leases.delay = 4.0
    election = candidate(leases, "a")
    await election.start()
    await clock.blocked()
    await clock.advance(4.0)
    await election.leadership.wait_leader()
    assert election.leadership.time_left == SETTINGS.ttl - 4.0 - SETTINGS.margin
    await election.stop()


async def test_r7_a_leader_stops_acting_before_its_lease_ends_while_renewals_fail(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    election = candidate(leases, "a")
    heard = changes(election.leadership)
    await election.start()
    await election.leadership.wait_leader()
    await clock.blocked()
    leases.broken = True
    await clock.advance(SETTINGS.ttl - SETTINGS.margin - 0.01)
    assert leads(election)
    await clock.advance(0.01)
    assert not leads(election)
    assert heard == [True, False]
    assert clock.monotonic() < leases.held["timer"][1]
    leases.broken = False
    await clock.advance(SETTINGS.retry)
    assert leads(election)
    await election.stop()


async def test_r7_a_renewal_that_hangs_is_given_up_when_the_trust_ends(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    election = candidate(leases, "a")
    heard = list[tuple[bool, int]]()
    election.leadership.on_change(lambda leads: heard.append((leads, leases.cancelled)))
    await election.start()
    await election.leadership.wait_leader()
    await clock.blocked()
    leases.hanging = True
    await clock.advance(SETTINGS.ttl - SETTINGS.margin)
    assert heard == [(True, 0), (False, 0)]
    assert leases.cancelled == 1
    leases.hanging = False
    await clock.advance(SETTINGS.retry)
    assert leads(election)
    await election.stop()


async def test_a_leader_that_the_database_does_not_name_steps_down(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    election = candidate(leases, "a")
    heard = changes(election.leadership)
    await election.start()
    await election.leadership.wait_leader()
    await clock.blocked()
    leases.held["timer"] = ("b", clock.monotonic() + 100.0)
    await clock.advance(SETTINGS.renew_every)
    assert heard == [True, False]
    await election.stop()
    assert leases.held["timer"][0] == "b"


async def test_stopping_while_a_request_hangs_ends_it(
    leases: MemoryLeases, clock: FakeClock
) -> None:
    leases.hanging = True
    election = candidate(leases, "a")
    await election.start()
    await clock.blocked()
    stop = asyncio.create_task(election.stop())
    await asyncio.wait([stop], timeout=5)
    assert stop.done()
    assert leases.cancelled == 1


async def test_a_release_that_fails_does_not_keep_the_process_from_ending(
    leases: MemoryLeases,
) -> None:
    election = candidate(leases, "a")
    await election.start()
    await election.leadership.wait_leader()
    leases.broken = True
    await election.stop()
    assert not leads(election)


async def test_a_store_that_is_down_is_logged_once(
    leases: MemoryLeases, clock: FakeClock, logged: Callable[[str], list[dict[str, object]]]
) -> None:
    leases.broken = True
    election = candidate(leases, "a")
    await election.start()
    await clock.blocked()
    await clock.advance(10.0)
    leases.broken = False
    await election.stop()
    assert len(leases.asked) > 10
    assert [line["reason"] for line in logged("election.failed")] == ["STORE_UNAVAILABLE"]


async def test_an_election_keeps_the_start_stop_contract(
    leases: MemoryLeases, startstop_stress: Callable[[Service], Awaitable[None]]
) -> None:
    await startstop_stress(candidate(leases, "a"))
    assert leases.held == {}


@given(
    st.floats(0.0, 1e6),
    st.floats(0.0, 10.0),
    st.floats(0.0, 30.0),
    st.booleans(),
    st.floats(0, 0.999),
)
def test_a_leader_never_sleeps_past_the_end_of_its_trust(
    sent_at: float, left: float, took: float, failed: bool, jitter: float
) -> None:
    until, now = trusted_until(sent_at, left, SETTINGS), sent_at + took
    pause = pause_before_next(failed, until, now, SETTINGS, jitter)
    assert 0.0 < pause <= SETTINGS.renew_every
    if until > now:
        assert now + pause <= until + 1e-6


def test_a_refusal_is_no_trust_at_all() -> None:
    assert trusted_until(5.0, None, SETTINGS) == NEVER


@pytest.mark.parametrize(
    "wrong",
    [{"renew_every": 9.5}, {"renew_every": 0.0}, {"margin": -1.0}, {"retry": 0.0}, {"ttl": 2.0}],
)
def test_settings_in_which_no_renewal_fits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no renewal fits"):
        ElectionSettings(**wrong)
