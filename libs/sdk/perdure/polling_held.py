"""The tasks that this process holds, and the thread that keeps them, apart from all handlers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from perdure_contracts.v1 import worker_service_pb2 as pb

from perdure.cancellation import Cancellation
from perdure.errors import PerdureApiError
from perdure.polling_door import PollingDoor

TICK_SECONDS = 0.25
MAX_KEPT = 1000
RENEWED_SHARE = 1 / 3
LEAST_RENEWAL_SECONDS = 0.3

_logger = logging.getLogger("perdure.polling")


@dataclass(eq=False)
class Held:
    """A task whose handler runs; instants are those of `time.monotonic()`.

    `interrupt` ends a coroutine of the handler's.
    """

    task: pb.Task
    renew_at: float
    deadline: float | None
    cancelled: Cancellation = field(default_factory=Cancellation)
    is_lost: bool = False
    interrupt: Callable[[], object] | None = None

    @property
    def token(self) -> str:
        """What names it."""
        return self.task.task_token

    def lose(self) -> None:
        """It is another's: whatever its handler comes to is told to nobody."""
        self.is_lost = True
        self.cancelled.set()
        if self.interrupt is not None:
            self.interrupt()


def hold(task: pb.Task) -> Held:
    """Return a task that just arrived, its times turned into instants of this process."""
    now = time.monotonic()
    timeout = task.timeout.ToMilliseconds() / 1000 if task.HasField("timeout") else None
    lease = task.lease.ToMilliseconds() / 1000
    return Held(task, _renewal(now, lease), None if timeout is None else now + timeout)


class Heartbeats:
    """Keeps tasks with one call for all that are due."""

    def __init__(self, door: PollingDoor) -> None:
        self._door = door
        self._held: set[Held] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perdure-heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to keep."""
        self._thread.start()

    def stop(self) -> None:
        """Keep no more."""
        self._ended.set()
        self._thread.join()

    def all(self) -> list[Held]:
        """Return what is held now."""
        with self._lock:
            return list(self._held)

    def add(self, held: Held) -> None:
        """Keep this task, too."""
        with self._lock:
            self._held.add(held)

    def drop(self, held: Held) -> None:
        """Keep it no more."""
        with self._lock:
            self._held.discard(held)

    def _run(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            now = time.monotonic()
            due = [held for held in self.all() if held.renew_at <= now][:MAX_KEPT]
            if due:
                self._keep(due)

    def _keep(self, due: list[Held]) -> None:
        sent_at = time.monotonic()
        try:
            beats = self._door.keep([held.token for held in due])
        except PerdureApiError as error:
            # Only the door says that a task is lost; the work goes on meanwhile.
            _logger.warning("heartbeats of %d tasks failed: %s", len(due), error)
            return
        for held, beat in zip(due, beats, strict=True):
            self._apply(held, beat, sent_at)

    def _apply(self, held: Held, beat: pb.Heartbeat, sent_at: float) -> None:
        if beat.status == pb.TASK_STATUS_LOST:
            _logger.warning("task of step %d of run %s is lost", held.task.step, held.task.run_id)
            self.drop(held)
            held.lose()
        elif beat.status == pb.TASK_STATUS_OK:
            held.renew_at = _renewal(sent_at, beat.lease.ToMilliseconds() / 1000)
            if beat.cancel_requested:
                held.cancelled.set()


def _renewal(now: float, lease: float) -> float:
    return now + max(LEAST_RENEWAL_SECONDS, lease * RENEWED_SHARE)
