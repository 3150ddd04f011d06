"""Handlers without Perdure's SDK: gRPC, and what its tools generate from worker_service.proto.

A program in any other language does the same five calls. Run it beside the engine:

    PERDURE_API_KEY=pdr_... python -m examples.polling_handler.poller
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import grpc
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_contracts.v1.worker_service_pb2_grpc import WorkerServiceStub

LANES = ["io"]
POLL_SECONDS = 65.0
"""Longer than the 55 seconds that a poll waits, shorter than what a proxy must allow."""

CALL_SECONDS = 20.0
HEARTBEAT_SECONDS = 0.3
"""Of a lease of ten seconds three are soon enough; the engine of the tests has shorter ones."""


class CannotScore(Exception):
    """Another try cannot go better."""


def collect(given: dict[str, Any], attempt: int) -> Any:
    """Gather what is known of a customer."""
    if given["customer"] == "nobody":
        raise CannotScore("there is no such customer")
    return {"customer": given["customer"], "orders": len(given["customer"])}


def compute(given: dict[str, Any], attempt: int) -> Any:
    """Score them; the first try breaks, so that there is a second."""
    if attempt == 1:
        raise TimeoutError("the model did not answer")
    return {"customer": given["customer"], "score": 10 * given["orders"]}


HANDLERS: dict[str, Callable[[dict[str, Any], int], Any]] = {
    "score.collect": collect,
    "score.compute": compute,
}


class Poller:
    """Polls for one task at a time and keeps it while its handler runs."""

    def __init__(self, address: str, key: str) -> None:
        # The channel finds all workers, repeats what may be repeated, and leaves one that drains.
        config = (files("perdure_contracts.v1") / "worker_service_config.json").read_text()
        self.channel = grpc.insecure_channel(address, options=[("grpc.service_config", config)])
        self.stub: Any = WorkerServiceStub(self.channel)  # type: ignore[arg-type]
        self.metadata = (("authorization", f"Bearer {key}"),)
        self.worker_id = f"poller-{uuid.uuid4()}"
        self.is_ending = False

    def end(self, *_: object) -> None:
        """Take no more tasks; the poll that waits is answered at once."""
        self.is_ending = True
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self) -> None:
        """Ask for no more."""
        self.call(self.stub.DrainWorker, pb.DrainWorkerRequest(worker_id=self.worker_id))

    def serve(self) -> None:
        """Do tasks until the end."""
        while not self.is_ending:
            for task in self.poll().tasks:
                self.work(task)

    def poll(self) -> Any:
        """Wait for a task; an answer without one is no error."""
        request = pb.PollTasksRequest(worker_id=self.worker_id, lanes=LANES, max_tasks=1)
        return self.stub.PollTasks(
            request, timeout=POLL_SECONDS, metadata=self.metadata, wait_for_ready=True
        )

    def work(self, task: Any) -> None:
        """Do a task, and those of its run that come with the answers."""
        while task is not None:
            ended = threading.Event()
            keeping = threading.Thread(target=self.keep, args=(task, ended), daemon=True)
            keeping.start()
            try:
                tell = self.outcome(task)
            finally:
                ended.set()
                keeping.join()
            task = tell()

    def outcome(self, task: Any) -> Callable[[], Any]:
        """Call the handler; return what tells how it ended."""
        handler = HANDLERS.get(task.handler)
        if handler is None:
            text = f"this program has no handler {task.handler}"
            return lambda: self.fail(task, "retryable", "HANDLER_UNKNOWN", text)
        try:
            output = json.dumps(handler(json.loads(task.input or b"null"), task.attempt))
        except CannotScore as error:
            text = str(error)
            return lambda: self.fail(task, "permanent", "CANNOT_SCORE", text)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises fails its task
            code, text = type(error).__name__, str(error)
            return lambda: self.fail(task, "retryable", code, text)
        return lambda: self.complete(task, output.encode())

    def keep(self, task: Any, ended: threading.Event) -> None:
        """Send heartbeats until the handler has ended."""
        request = pb.HeartbeatTasksRequest(task_tokens=[task.task_token])
        while not ended.wait(HEARTBEAT_SECONDS):
            (beat,) = self.call(self.stub.HeartbeatTasks, request).results
            if beat.status == pb.TASK_STATUS_LOST:
                return

    def complete(self, task: Any, output: bytes) -> Any:
        """Tell what a handler returned; return the run's next task, None if none came."""
        answer = self.tell(
            self.stub.CompleteTask,
            pb.CompleteTaskRequest(
                task_token=task.task_token,
                output=output,
                next_lanes=[] if self.is_ending else LANES,
                worker_id=self.worker_id,
            ),
        )
        return answer.next if answer is not None and answer.HasField("next") else None

    def fail(self, task: Any, error_class: str, code: str, text: str) -> None:
        """Tell that it failed, and whether another try may go better."""
        request = pb.FailTaskRequest(task_token=task.task_token, code=code, message=text)
        setattr(request, "class", error_class)
        self.tell(self.stub.FailTask, request)

    def tell(self, method: Any, request: Any) -> Any:
        """Tell an outcome; one of a task that is another's by now is dropped."""
        try:
            return self.call(method, request)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return None

    def call(self, method: Any, request: Any) -> Any:
        """Call a method of the door."""
        return method(request, timeout=CALL_SECONDS, metadata=self.metadata)


def main() -> int:
    """Serve until told to end."""
    key = os.environ.get("PERDURE_API_KEY") or Path(".perdure/api_key").read_text().strip()
    poller = Poller(os.environ.get("PERDURE_HANDLERS_ADDRESS", "127.0.0.1:7420"), key)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, poller.end)
    poller.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
