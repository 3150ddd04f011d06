"""Which lanes there are, asked of the coordinator now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from perdure_contracts.internal.v1.control_service_pb2 import Lane
from perdure_runtime.backoff import Backoff
from perdure_runtime.clock import Clock
from perdure_runtime.errors import NotFound, Reason, Unavailable
from perdure_runtime.loop import Loop, LoopSettings, Pass

from perdure_worker.coordinator import Coordinator
from perdure_worker.lanes import REFRESH_SECONDS

_BACKOFF = Backoff(base=0.1, factor=2.0, cap=2.0)
PATIENCE_SECONDS = 5.0
"""How long the first answer of the coordinator is waited for."""

_SHARE_OF_LEASE = 3
"""A heartbeat is needed when a third of a lease has passed, so that two may be lost."""


class KnownLanes(Loop):
    """Keeps the lanes; `changed` is called when they are others."""

    def __init__(self, coordinator: Coordinator, clock: Clock) -> None:
        settings = LoopSettings(interval=REFRESH_SECONDS, backoff=_BACKOFF)
        super().__init__("door.lanes", self.refresh, settings, clock=clock)
        self._coordinator = coordinator
        self._time = clock
        self._lanes: Mapping[str, Lane] = MappingProxyType({})
        self._known = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the lanes are others."""
        self._listeners.append(listener)

    async def refresh(self) -> Pass:
        """Ask for the lanes. Raises PerdureError."""
        lanes = {lane.lane: lane for lane in await self._coordinator.lanes()}
        if lanes != self._lanes:
            self._lanes = MappingProxyType(lanes)
            for listener in self._listeners:
                listener()
        self._known.set()
        return Pass()

    def shards(self, name: str) -> int:
        """Return how many shards a lane has, 0 for one that is gone."""
        lane = self._lanes.get(name)
        return lane.shards if lane is not None else 0

    async def check(self, names: Iterable[str]) -> None:
        """Raise NotFound, LANE_NOT_FOUND, for a lane that there is not.

        Raises Unavailable where the lanes do not become known in a moment.
        """
        if not await self._time.wait(self._known, PATIENCE_SECONDS):
            raise Unavailable("the lanes are not known yet", reason=Reason.PEER_UNAVAILABLE)
        for name in names:
            if name not in self._lanes:
                raise NotFound(
                    f"there is no lane {name!r}",
                    reason=Reason.LANE_NOT_FOUND,
                    metadata={"lane": name},
                )

    @property
    def hand_out_seconds(self) -> float:
        """The shortest time that a lane hands a step out for."""
        return min((lane.hand_out_ms for lane in self._lanes.values()), default=0) / 1000

    @property
    def heartbeat_seconds(self) -> float:
        """How often the lane wants a heartbeat that wants most."""
        least = min((min(one.lease_ms, one.hand_out_ms) for one in self._lanes.values()), default=0)
        return least / 1000 / _SHARE_OF_LEASE
