"""A handler's calls to the workers' door: blocking, each from whatever thread needs it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, cast

import grpc
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceStub

from perdure.client_transport import AUTHORIZATION, blocking_channel, pause_before, says_not_now
from perdure.errors import FailedCall, PerdureApiError, from_rpc_error

POLL_SECONDS = 65.0
CALL_SECONDS = 20.0

TELL_SECONDS = 120.0
"""How long an outcome is told that nobody answers; by then its lease is long over."""

SERVICE_CONFIG = (files("perdure_contracts.v1") / "worker_service_config.json").read_text("utf-8")
_OPTIONS = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 60_000),
)


class PollingDoor:
    """The door at `address`, which is `host:port`, or by TLS `https://host:port`."""

    def __init__(self, address: str, api_key: str, worker_id: str, lanes: Sequence[str]) -> None:
        self._channel = blocking_channel(address, _OPTIONS)
        self._stub: Any = WorkerServiceStub(cast(Any, self._channel))
        self._metadata = ((AUTHORIZATION, f"Bearer {api_key}"),) if api_key else ()
        self._worker_id = worker_id
        self._lanes = tuple(lanes)
        self._poll: Any = None

    def poll(self, room: int) -> pb.PollTasksResponse:
        """Wait for tasks. Raises PerdureApiError, CANCELLED after `cancel_poll`."""
        request = pb.PollTasksRequest(worker_id=self._worker_id, lanes=self._lanes, max_tasks=room)
        self._poll = self._stub.PollTasks.future(
            request, timeout=POLL_SECONDS, metadata=self._metadata
        )
        answer: pb.PollTasksResponse = self._answered(self._poll.result)
        return answer

    def cancel_poll(self) -> None:
        """End the poll that waits."""
        if self._poll is not None:
            self._poll.cancel()

    def keep(self, tokens: Sequence[str]) -> Sequence[pb.Heartbeat]:
        """Keep tasks. Raises PerdureApiError."""
        request = pb.HeartbeatTasksRequest(task_tokens=tokens)
        answer: pb.HeartbeatTasksResponse = self._call(self._stub.HeartbeatTasks, request)
        return answer.results

    def release(self, tokens: Sequence[str]) -> None:
        """Hand tasks back. Raises PerdureApiError."""
        self._call(self._stub.ReleaseTasks, pb.ReleaseTasksRequest(task_tokens=tokens))

    def complete(self, token: str, output: bytes, cost: str, *, takes_next: bool) -> pb.Task | None:
        """End a task well, until somebody answers; return the run's next one if it came.

        Raises PerdureApiError for what is refused.
        """
        request = pb.CompleteTaskRequest(task_token=token, output=output, cost=cost)
        if takes_next:
            request.next_lanes.extend(self._lanes)
            request.worker_id = self._worker_id
        answer: pb.CompleteTaskResponse = self._told(self._stub.CompleteTask, request)
        return answer.next if answer.HasField("next") else None

    def fail(self, request: pb.FailTaskRequest) -> None:
        """Tell that a task failed, until somebody answers. Raises PerdureApiError."""
        self._told(self._stub.FailTask, request)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _told(self, method: Any, request: Any) -> Any:
        until, tries = time.monotonic() + TELL_SECONDS, 0
        while True:
            try:
                return self._call(method, request)
            except PerdureApiError as error:
                tries += 1
                pause = pause_before(tries, error.retry_after)
                if not may_be_told_again(error) or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)

    def _call(self, method: Any, request: Any) -> Any:
        return self._answered(
            lambda: method(request, timeout=CALL_SECONDS, metadata=self._metadata)
        )

    def _answered(self, call: Any) -> Any:
        try:
            return call()
        except grpc.FutureCancelledError as error:
            raise PerdureApiError("cancelled", code="CANCELLED", reason="CANCELLED") from error
        except grpc.RpcError as error:
            raise from_rpc_error(cast(FailedCall, error)) from error


def may_be_told_again(error: PerdureApiError) -> bool:
    """Tell whether nobody knows yet whether a call was taken."""
    return says_not_now(error) or error.code == "DEADLINE_EXCEEDED"


def spread(seconds: float) -> float:
    """Return a wait of about so many seconds, so that many do not come back together."""
    return seconds * random.uniform(0.5, 1.0)
