"""The peers: how each is run, what is tried to find its best, and what it guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run a peer: so many processes of its node, each with so much at once.

    `processes` and `pool` are of workers that the node itself starts.
    """

    nodes: int
    concurrency: int
    processes: int = 1
    pool: str = ""

    def told(self) -> Mapping[str, object]:
        """What a node is told of it."""
        return {"concurrency": self.concurrency, "processes": self.processes, "pool": self.pool}

    def __str__(self) -> str:
        workers = f" of {self.processes} workers" if self.processes > 1 else ""
        pool = f" {self.pool}" if self.pool else ""
        return f"{self.nodes} x {self.concurrency}{workers}{pool}"


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine to compare with. `chains`: whether it has workflows whose steps are kept."""

    name: str
    module: str
    chains: bool
    settings: tuple[Setting, ...]
    note: str


PEERS = (
    Peer(
        "dbos",
        "dbos_node",
        chains=True,
        settings=(Setting(1, 64), Setting(1, 16), Setting(2, 32), Setting(2, 64)),
        note="A library; each step is stored in PostgreSQL by the process that runs it, which also "
        "recovers its runs when it starts again. A job is a workflow of its queue, looked at every "
        "0.1 s in place of every second.",
    ),
    Peer(
        "restate",
        "restate_node",
        chains=True,
        settings=(Setting(1, 128), Setting(1, 32), Setting(1, 32, 2), Setting(1, 128, 2)),
        note="One server, its defaults, no replicas: steps are journaled into its own log with "
        "fsync, not into PostgreSQL. The service runs under hypercorn. A job is a call that is "
        "answered when it is done.",
    ),
    Peer(
        "absurd",
        "absurd_node",
        chains=True,
        settings=(Setting(2, 16), Setting(1, 16), Setting(1, 64), Setting(4, 16)),
        note="A call of a stored function keeps a step in PostgreSQL. Asynchronous workers, which "
        "look for tasks every 0.02 s in place of 0.25 s.",
    ),
    Peer(
        "procrastinate",
        "procrastinate_node",
        chains=False,
        settings=(Setting(1, 20), Setting(1, 50), Setting(2, 20)),
        note="Jobs in PostgreSQL, taken in one commit and finished in another; results are not "
        "kept, and there are no workflows. Enqueued 100 a call; LISTEN wakes the worker.",
    ),
    Peer(
        "celery",
        "celery_node",
        chains=False,
        settings=(
            Setting(1, 2, pool="prefork"),
            Setting(1, 4, pool="prefork"),
            Setting(1, 16, pool="threads"),
        ),
        note="Jobs and results in Valkey, whose file is synced once a second: the last second of "
        "both may be lost. Acknowledged after the work; results are fetched.",
    ),
)

NOT_HAD: Mapping[str, str] = MappingProxyType(
    {
        "temporal": "its server is in no package of PyPI or npm",
        "hatchet": "its server is in no package of PyPI or npm",
        "inngest": "its npm package holds no server and fetches one from elsewhere when installed",
    }
)
