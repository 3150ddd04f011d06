"""The client of Perdure: publish workflows, start runs, look at them, wait for them, stop them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure_contracts.v1 import (
    dead_letter_service_pb2,
    dead_letter_service_pb2_grpc,
    run_pb2,
    run_service_pb2,
    run_service_pb2_grpc,
    system_service_pb2,
    system_service_pb2_grpc,
    workflow_pb2,
    workflow_service_pb2,
    workflow_service_pb2_grpc,
)

from perdure.address import find_address, find_api_key
from perdure.client_access import AuditLog, Keys, Members
from perdure.client_budgets import Budgets
from perdure.client_connections import Connections
from perdure.client_consent import Consent
from perdure.client_effects import UnsettledEffects
from perdure.client_jobs import Jobs
from perdure.client_lanes import Lanes
from perdure.client_migrations import Migrations
from perdure.client_transport import Transport, pause_before
from perdure.errors import PerdureUnavailable
from perdure.payload import to_payload
from perdure.signals import StartSignal
from perdure.start_keys import key_or_own
from perdure.times import duration, timestamp
from perdure.workflow import Workflow as Definition

DEFAULT_TIMEOUT = 30.0
"""Deadline of a call with its repeats, seconds."""

DEFAULT_ATTEMPTS = 5
"""How often a call is sent at most."""


class Client:
    """A connection to Perdure, for one event loop; use it as an async context manager.

        async with Client() as client:
            started = await client.start_run("order", {"id": 7}, start_key="order-7")
            run = await client.wait_run(started.run_id)

    Without an address it takes `PERDURE_ADDRESS`, then the dev stack of this folder or one above,
    then 127.0.0.1:7400. It presents `api_key`, else `PERDURE_API_KEY`, else the key of that dev
    stack, which is shown to nobody else. Every method raises `PerdureApiError` when the call is
    refused, and `PerdureUnavailable`, a kind of it, when nobody answered in `timeout` seconds or
    `attempts` tries.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = DEFAULT_ATTEMPTS,
    ) -> None:
        self.address = find_address(address, os.environ, Path.cwd())
        key = find_api_key(api_key, self.address, os.environ, Path.cwd())
        self._transport = Transport(self.address, timeout=timeout, attempts=attempts, api_key=key)

    @cached_property
    def _workflows(self) -> workflow_service_pb2_grpc.WorkflowServiceStub:
        return workflow_service_pb2_grpc.WorkflowServiceStub(self._transport.channel)

    @cached_property
    def _runs(self) -> run_service_pb2_grpc.RunServiceStub:
        return run_service_pb2_grpc.RunServiceStub(self._transport.channel)

    @cached_property
    def _dead_letters(self) -> dead_letter_service_pb2_grpc.DeadLetterServiceStub:
        return dead_letter_service_pb2_grpc.DeadLetterServiceStub(self._transport.channel)

    @cached_property
    def _system(self) -> system_service_pb2_grpc.SystemServiceStub:
        return system_service_pb2_grpc.SystemServiceStub(self._transport.channel)

    @cached_property
    def budgets(self) -> Budgets:
        """What work may cost."""
        return Budgets(self._transport)

    @cached_property
    def consent(self) -> Consent:
        """Whom work must not be about."""
        return Consent(self._transport)

    @cached_property
    def jobs(self) -> Jobs:
        """Enqueues jobs, looks at them, stops and replays them, and makes their types."""
        return Jobs(self._transport, self.wait_run)

    @cached_property
    def migrations(self) -> Migrations:
        """Moves unfinished runs to other versions of their workflows."""
        return Migrations(self._transport)

    @cached_property
    def lanes(self) -> Lanes:
        """What operators set for all orgs: lanes, and the weights of orgs."""
        return Lanes(self._transport)

    @cached_property
    def connections(self) -> Connections:
        """Makes and repairs accounts at outside providers that steps act under."""
        return Connections(self._transport)

    @cached_property
    def keys(self) -> Keys:
        """The API keys of the org."""
        return Keys(self._transport)

    @cached_property
    def members(self) -> Members:
        """The members of the org, and their roles."""
        return Members(self._transport)

    @cached_property
    def audit(self) -> AuditLog:
        """Who did what."""
        return AuditLog(self._transport)

    @cached_property
    def effects(self) -> UnsettledEffects:
        """Lists effects that are not settled, and decides about those that wait for a person."""
        return UnsettledEffects(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        await self._transport.close()

    async def publish_workflow(
        self, document: str | bytes | Definition
    ) -> workflow_service_pb2.PublishWorkflowResponse:
        """Publish a YAML or JSON document, or a workflow made here, as its name's next version.

        The content of the latest version gives that version back, with `created` false. A document
        with problems raises DEFINITION_INVALID with all of them in `fields`.
        """
        request = workflow_service_pb2.PublishWorkflowRequest(document=_encoded(document))
        return await self._transport.call(self._workflows.PublishWorkflow, request)

    async def validate_workflow(
        self, document: str | bytes | Definition
    ) -> workflow_service_pb2.ValidateWorkflowResponse:
        """Check a document as publishing would, without storing it."""
        request = workflow_service_pb2.ValidateWorkflowRequest(document=_encoded(document))
        return await self._transport.call(self._workflows.ValidateWorkflow, request)

    async def get_workflow(self, name: str, version: int = 0) -> workflow_pb2.Workflow:
        """Read one version with its document; version 0 is the latest."""
        request = workflow_service_pb2.GetWorkflowRequest(name=name, version=version)
        answer = await self._transport.call(self._workflows.GetWorkflow, request)
        return answer.workflow

    async def list_workflows(self, name: str = "") -> AsyncGenerator[workflow_pb2.Workflow, None]:
        """Yield all versions of `name`, newest first; without a name the latest of every name."""
        request = workflow_service_pb2.ListWorkflowsRequest(name=name)
        while True:
            page = await self._transport.call(self._workflows.ListWorkflows, request)
            for workflow in page.workflows:
                yield workflow
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def start_run(
        self,
        workflow: str,
        input: object = None,  # noqa: A002 - the name that the API and the definitions use
        *,
        version: int = 0,
        start_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        start_after: timedelta | float | None = None,
        signal: StartSignal | None = None,
    ) -> run_service_pb2.StartRunResponse:
        """Start a run and return its id; version 0 is the latest.

        It exists at once and begins then too, or at `start_at`, or `start_after` seconds later.

        `input` is a value, or bytes that are JSON already; None is `{}`. The same request under the
        same `start_key` gives the first run back, `created` false; another request under it raises
        RUN_ALREADY_STARTED with that run's id in `metadata`. Without a key this call makes one for
        its own repeats, so that a lost answer never starts a second run. `signal` is sent with the
        start, or to the run that the key gives back; if that has ended, RUN_CLOSED is raised.
        """
        request = run_service_pb2.StartRunRequest(
            workflow=workflow,
            version=version,
            input=b"" if input is None else to_payload(input),
            start_key=key_or_own(start_key),
            tags=tags or {},
            priority=priority,
            start_at=timestamp(start_at),
            start_after=duration(start_after),
            signal=None if signal is None else signal.message(),
        )
        return await self._transport.call(self._runs.StartRun, request)

    async def get_run(self, run_id: str, *, scope: str = "") -> run_pb2.Run:
        """Read one run with the steps of a scope (the top), their attempts and effects."""
        request = run_service_pb2.GetRunRequest(run_id=run_id, scope=scope)
        return (await self._transport.call(self._runs.GetRun, request)).run

    async def list_scopes(self, run_id: str, step: int) -> AsyncGenerator[run_pb2.Scope, None]:
        """Yield the scopes of a step in order: rows of a `for_each`, passes of a `repeat`."""
        request = run_service_pb2.ListScopesRequest(run_id=run_id, step=step)
        while True:
            page = await self._transport.call(self._runs.ListScopes, request)
            for scope in page.scopes:
                yield scope
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def list_runs(
        self,
        *,
        workflow: str = "",
        status: run_pb2.RunStatus.ValueType = run_pb2.RUN_STATUS_UNSPECIFIED,
        tags: Mapping[str, str] | None = None,
        created_from: datetime | None = None,
        created_before: datetime | None = None,
        parent_run_id: str = "",
        paused: bool | None = None,
        compensating: bool | None = None,
        page_size: int = 0,
    ) -> AsyncGenerator[run_pb2.Run, None]:
        """Yield runs, newest first, without payloads and steps; a filter left out matches all.

        A run matches `tags` if it has all of them, and `parent_run_id` if it is a child of that
        run. `compensating`: what completed in it is being taken back. `page_size` is how many one
        call fetches.
        """
        request = run_service_pb2.ListRunsRequest(
            workflow=workflow,
            status=status,
            tags=tags or {},
            created_from=timestamp(created_from),
            created_before=timestamp(created_before),
            parent_run_id=parent_run_id,
            paused=paused,
            compensating=compensating,
            page_size=page_size,
        )
        while True:
            page = await self._transport.call(self._runs.ListRuns, request)
            for run in page.runs:
                yield run
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def history(self, run_id: str) -> AsyncGenerator[run_pb2.HistoryEvent, None]:
        """Yield what happened in a run so far, oldest first."""
        request = run_service_pb2.GetRunHistoryRequest(run_id=run_id)
        while True:
            page = await self._transport.call(self._runs.GetRunHistory, request)
            for event in page.events:
                yield event
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def watch_run(self, run_id: str, until: str = "") -> AsyncGenerator[run_pb2.Run, None]:
        """Yield the run as it is now, then whenever it changed, the last time when it has ended.

        With `until`, the last time is also when a value has been published under that name; it is
        the only one that is there. Payloads of its steps are left out. Broken connections are made
        again. Raises FIELD_INVALID if no node of the run publishes under the name.
        """
        request = run_service_pb2.WatchRunRequest(run_id=run_id, until=until)
        failures = 0
        while True:
            try:
                stream = self._transport.stream(self._runs.WatchRun, request)
                async with aclosing(stream) as answers:
                    async for answer in answers:
                        failures, request.after_revision = 0, answer.run.revision
                        yield answer.run
                        if has_ended(answer.run) or published(answer.run, until) is not None:
                            return
                await asyncio.sleep(pause_before(1, None))
            except PerdureUnavailable as failure:
                failures += 1
                seen = request.after_revision > 0
                await self._transport.pause_after(failure, failures, seen=seen)

    async def wait_run(
        self, run_id: str, timeout: float | None = None, *, until: str = ""
    ) -> run_pb2.Run:
        """Wait until a run has ended and return it; raises TimeoutError after `timeout` seconds.

        With `until`, wait until a value has been published under that name, which `published` gives
        of the run that is returned; it gives None if the run ended without it.
        """
        async with asyncio.timeout(timeout):
            async with aclosing(self.watch_run(run_id, until)) as changes:
                async for run in changes:
                    if has_ended(run) or published(run, until) is not None:
                        return run
        raise AssertionError("a watch ends with the run")

    async def signal_run(
        self, run_id: str, name: str, data: object = None, *, signal_id: str | None = None
    ) -> run_service_pb2.SignalRunResponse:
        """Send a signal to a run.

        `data` is a value, or bytes that are JSON already. The same `signal_id` is sent to a run
        once, and then answered with `is_new` false, also when the run has ended. Without an id this
        call makes one for its own repeats. Raises RUN_CLOSED if the run has ended.
        """
        signal = StartSignal(name, data, signal_id).message()
        request = run_service_pb2.SignalRunRequest(run_id=run_id, signal=signal)
        return await self._transport.call(self._runs.SignalRun, request)

    async def answer_callback(
        self, callback: str, data: object = None, *, signal_id: str | None = None
    ) -> run_service_pb2.SignalRunResponse:
        """Answer a callback: send the wait that its token is for a signal, as `signal_run`.

        Raises CALLBACK_INVALID for a token that no run made, CALLBACK_SPENT if the wait has another
        answer or is over, and RUN_CLOSED if the run has ended.
        """
        signal = StartSignal("", data, signal_id).message()
        request = run_service_pb2.SignalRunRequest(callback=callback, signal=signal)
        return await self._transport.call(self._runs.SignalRun, request)

    async def signal_key(
        self, key: str, name: str, data: object = None, *, signal_id: str | None = None
    ) -> run_service_pb2.SignalRunResponse:
        """Send a signal by a correlation key, as `signal_run`, to the run that waits on it.

        If no run has the key, `run_id` is empty and the signal waits for one that asks for it.
        """
        signal = StartSignal(name, data, signal_id).message()
        request = run_service_pb2.SignalRunRequest(key=key, signal=signal)
        return await self._transport.call(self._runs.SignalRun, request)

    async def cancel_run(self, run_id: str, reason: str = "") -> run_service_pb2.CancelRunResponse:
        """Close a run at once; `changed` is false if it had been cancelled before.

        Raises RUN_CLOSED if it ended otherwise.
        """
        request = run_service_pb2.CancelRunRequest(run_id=run_id, reason=reason)
        return await self._transport.call(self._runs.CancelRun, request)

    async def terminate_run(self, run_id: str, reason: str = "") -> bool:
        """End a run at once as cancelled, without compensation.

        Return whether that changed it; raises RUN_CLOSED if it ended otherwise.
        """
        request = run_service_pb2.TerminateRunRequest(run_id=run_id, reason=reason)
        return (await self._transport.call(self._runs.TerminateRun, request)).changed

    async def pause_run(self, run_id: str, reason: str = "") -> bool:
        """Let nothing of a run begin until it is resumed; return whether that changed it.

        Running work ends and its result counts. Raises RUN_CLOSED if the run has ended.
        """
        request = run_service_pb2.PauseRunRequest(run_id=run_id, reason=reason)
        return (await self._transport.call(self._runs.PauseRun, request)).changed

    async def resume_run(self, run_id: str, reason: str = "") -> bool:
        """Let a paused run go on where it was; return whether that changed it.

        Raises RUN_CLOSED if the run has ended.
        """
        request = run_service_pb2.ResumeRunRequest(run_id=run_id, reason=reason)
        return (await self._transport.call(self._runs.ResumeRun, request)).changed

    async def retry_run(self, run_id: str, reason: str = "") -> bool:
        """Open a failed run again and retry what failed; return whether that changed it.

        Raises RUN_CLOSED if it did not end failed, EFFECT_UNRESOLVED if what failed may have been
        performed, and RUN_COMPENSATED if completed steps were compensated.
        """
        request = run_service_pb2.RetryRunRequest(run_id=run_id, reason=reason)
        return (await self._transport.call(self._runs.RetryRun, request)).changed

    async def list_dead_letters(
        self, *, workflow: str = "", code: str = "", page_size: int = 0
    ) -> AsyncGenerator[dead_letter_service_pb2.DeadLetter, None]:
        """Yield dead letters, of the newest runs first; a filter left out matches all."""
        request = dead_letter_service_pb2.ListDeadLettersRequest(
            workflow=workflow, code=code, page_size=page_size
        )
        while True:
            page = await self._transport.call(self._dead_letters.ListDeadLetters, request)
            for letter in page.dead_letters:
                yield letter
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def replay_dead_letters(
        self, *, workflow: str = "", code: str = "", limit: int = 0, reason: str = ""
    ) -> dead_letter_service_pb2.ReplayDeadLettersResponse:
        """Have the dead letters that match now retried, at most `limit` of them, 0 for 1000.

        `more` of the answer tells whether others match.
        """
        request = dead_letter_service_pb2.ReplayDeadLettersRequest(
            workflow=workflow, code=code, limit=limit, reason=reason
        )
        return await self._transport.call(self._dead_letters.ReplayDeadLetters, request)

    async def discard_dead_letter(self, run_id: str, reason: str = "") -> None:
        """Give up a dead letter; its run stays failed. Raises DEAD_LETTER_NOT_FOUND."""
        request = dead_letter_service_pb2.DiscardDeadLetterRequest(run_id=run_id, reason=reason)
        await self._transport.call(self._dead_letters.DiscardDeadLetter, request)

    async def diagnose(self, max_findings: int = 0) -> system_service_pb2.DiagnoseResponse:
        """Ask what has stopped without an error; 0 takes at most 100 findings of each check."""
        request = system_service_pb2.DiagnoseRequest(max_findings=max_findings)
        return await self._transport.call(self._system.Diagnose, request)


def has_ended(run: run_pb2.Run) -> bool:
    """Tell whether a run is in a final state."""
    return run.status not in (run_pb2.RUN_STATUS_UNSPECIFIED, run_pb2.RUN_STATUS_RUNNING)


def published(run: run_pb2.Run, name: str) -> bytes | None:
    """Return what the run has published under `name`, JSON; None if it has not."""
    return next((one.value for one in run.published if one.name == name), None)


def _encoded(document: str | bytes | Definition) -> bytes:
    if isinstance(document, Definition):
        document = document.to_json()
    return document.encode() if isinstance(document, str) else document
