"""A peer's turn: its processes are started, do chains and jobs, and end."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.chains import STEPS as ALONE_STEPS
from tests.bench.peers.peers import Peer, Setting
from tests.bench.peers.process import NodeProcess, running
from tests.bench.peers.results import Round
from tests.bench.rig import Rig

CHAINS, JOBS = "chains", "jobs"
ALONE_RUNS = 4
REDIS_DATABASE = 9
CHAIN_STEPS = 20
FEWEST_JOBS = 200
BATCH = 100


@dataclass(frozen=True, slots=True)
class Turn:
    """How long each kind of work is to take in a turn, in seconds."""

    seconds: float

    def amount(self, rate: float, whole: int) -> int:
        """Return how much a rate does in that time, in multiples of `whole`, one at the least."""
        return max(1, round(rate * self.seconds / whole)) * whole


@dataclass(slots=True)
class Servers:
    """Where PostgreSQL, with a database for each peer, and Valkey are; a folder for the rest.

    `paces` are the rates seen so far by peer and kind of work.
    """

    database_url: str
    redis_url: str
    directory: Path
    paces: dict[tuple[str, str], float] = field(default_factory=dict)
    starts: int = 0

    @classmethod
    async def of(cls, rig: Rig, peers: Sequence[Peer], directory: Path) -> Servers:
        """Return the servers of a rig, with the databases made."""
        for peer in peers:
            await rig.database.execute(f"CREATE DATABASE peer_{peer.name}")
        backends = rig.stack.backends
        redis_url = f"{backends.redis_url.rpartition('/')[0]}/{REDIS_DATABASE}"
        return cls(backends.database_url.rpartition("/")[0], redis_url, directory)

    def given(self, peer: Peer, setting: Setting) -> Mapping[str, object]:
        """What a node is told."""
        url = f"{self.database_url}/peer_{peer.name}"
        return {"database_url": url, "redis_url": self.redis_url, **setting.told()}

    def new_directory(self, peer: Peer) -> Path:
        """A folder for one start."""
        self.starts += 1
        return self.directory / f"{peer.name}-{self.starts}"


async def best_settings(
    servers: Servers, peer: Peer, turn: Turn, *, sweep: bool
) -> Mapping[str, Setting]:
    """Return the setting with the best rate for each kind of work. Raises PeerFailed."""
    rates: dict[str, dict[Setting, float]] = {work: {} for work in _works(peer)}
    for setting in peer.settings if sweep else peer.settings[:1]:
        async with _nodes(servers, peer, setting) as nodes:
            for work, found in rates.items():
                first = await _rate(nodes, work, _least(work, setting))
                amount = max(_least(work, setting), turn.amount(first / 3, _whole(work)))
                found[setting] = await _rate(nodes, work, amount)
    best = {work: max(found, key=lambda one: found[one]) for work, found in rates.items()}
    servers.paces |= {(peer.name, work): rates[work][best[work]] for work in best}
    return best


async def take_turn(
    servers: Servers, peer: Peer, settings: Mapping[str, Setting], turn: Turn
) -> Round:
    """Return what a peer did in its turn. Raises PeerFailed."""
    seen: dict[str, float] = {}
    for setting in dict.fromkeys(settings.values()):
        works = [work for work, chosen in settings.items() if chosen == setting]
        async with _nodes(servers, peer, setting) as nodes:
            for work in works:
                await _rate(nodes, work, _least(work, setting))
                if work == CHAINS:
                    seen["chain_step_p50_ms"] = await _alone(nodes[0])
                pace = servers.paces[peer.name, work]
                amount = max(_least(work, setting), turn.amount(pace, _whole(work)))
                rate = await _rate(nodes, work, amount)
                seen["chain_steps_per_s" if work == CHAINS else "jobs_per_s"] = rate
    return seen


def _works(peer: Peer) -> tuple[str, ...]:
    return (CHAINS, JOBS) if peer.chains else (JOBS,)


def _whole(work: str) -> int:
    """In which multiples work is done: chains of all their steps, jobs by the hundred."""
    return CHAIN_STEPS if work == CHAINS else BATCH


def _least(work: str, setting: Setting) -> int:
    """The least work that has as much at once as the setting allows."""
    at_once = setting.nodes * setting.concurrency
    return at_once * CHAIN_STEPS if work == CHAINS else max(FEWEST_JOBS, at_once * 2)


def _nodes(
    servers: Servers, peer: Peer, setting: Setting
) -> AbstractAsyncContextManager[Sequence[NodeProcess]]:
    directory = servers.new_directory(peer)
    return running(peer.module, directory, servers.given(peer, setting), setting.nodes)


async def _alone(node: NodeProcess) -> float:
    """Return the median milliseconds from step to step of one workflow alone."""
    answers = [await node.ask(do="alone", steps=ALONE_STEPS) for _ in range(ALONE_RUNS)]
    return float(statistics.median([one for answer in answers for one in answer["ms"]]))


async def _rate(nodes: Sequence[NodeProcess], work: str, amount: int) -> float:
    """Return steps, or jobs, a second of so many of them, shared by the nodes."""
    share = max(1, round(amount / _whole(work) / len(nodes)))
    question: dict[str, object] = {"do": JOBS, "count": share * BATCH}
    if work == CHAINS:
        question = {"do": CHAINS, "runs": share, "steps": CHAIN_STEPS}
    began = time.perf_counter()
    await asyncio.gather(*(node.ask(**question) for node in nodes))
    return share * _whole(work) * len(nodes) / (time.perf_counter() - began)
