"""What a test asks of an engine, as the store takes it, and its answer as tests read it."""

from __future__ import annotations

from perdure_store.apply.starter import StartAnswer, StartRequest

from perdure_testkit.engines.port import RunStarted, StartOf


def start_request(org: str, start: StartOf) -> StartRequest:
    """Return a test's start as the store takes it."""
    return StartRequest(
        org=org,
        workflow=start.workflow,
        version=start.version,
        input=start.payload,
        start_key=start.start_key,
        tags=start.tags,
        priority=start.priority,
        traceparent=None,
        start=start.begin,
        signal=start.signal,
    )


def run_started(answer: StartAnswer) -> RunStarted:
    """Return the store's answer as the port gives it."""
    return RunStarted(answer.run_id, answer.workflow_version, answer.created)
