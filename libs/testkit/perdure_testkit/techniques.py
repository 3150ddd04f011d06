"""The techniques of the hot path that can be switched off, and how (design section 5).

No rule may rest on one of them: benchmarks measure what each is worth, the crash matrix is played
without each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Technique:
    """A technique, the services' variables that switch it off, by service, and the fail points
    that nobody passes then.
    """

    name: str
    off: Mapping[str, Mapping[str, str]]
    unpassed: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of all services together."""
        return MappingProxyType({k: v for named in self.off.values() for k, v in named.items()})


def _of_coordinator(name: str, value: str) -> Mapping[str, Mapping[str, str]]:
    return {"coordinator": {f"PERDURE_COORDINATOR_{name}": value}}


def _of_worker(name: str, value: str) -> Mapping[str, Mapping[str, str]]:
    return {"worker": {f"PERDURE_WORKER_{name}": value}}


TECHNIQUES = (
    Technique("P1 group commit", _of_coordinator("MAX_BATCH", "1")),
    Technique("P3 chained dispatch", _of_worker("CHAIN_STEPS", "0")),
    Technique(
        "P4 remembered runs",
        _of_coordinator("REMEMBERED_RUNS", "0"),
        frozenset({"store.write_hand_overs"}),
    ),
    Technique(
        "P3 offers",
        _of_worker("OFFERS", "false"),
        frozenset({"coordinator.hand_out", "worker.await_step"}),
    ),
    Technique("P5 batches on the wire", _of_worker("MAX_ITEMS", "1")),
    Technique("P5 one stream for calls", _of_worker("CONVERSE", "false")),
    Technique(
        "P7 wake-ups", _of_coordinator("WAKE_UPS", "false"), frozenset({"coordinator.notify"})
    ),
)
