"""What a handler tells that its try has spent is reported, also when the try fails."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import perdure
import pytest
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_worker.executors.invocation import Invocation
from perdure_worker.outcome import Dropped, to_report


def spend(amounts: list[Any], context: perdure.HandlerContext) -> str:
    for amount in amounts:
        context.costs.add(amount)
    if len(amounts) > 2:
        raise RuntimeError("too many")
    return "done"


def context(given: bytes) -> perdure.HandlerContext:
    return perdure.HandlerContext(
        run_id="r", workflow="w", workflow_version=1, node="n", scope="", step=1, attempt=1,
        key_prefix="r/n", input_bytes=given, deadline=None, cancelled=perdure.Cancellation(),
        logger=logging.getLogger("test"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "micros"),
    [(b"[0.1, 0.2]", 300_000), (b'["0.000001"]', 1), (b"[0]", 0), (b"[1, 1, 1]", 3_000_000)],
)
def test_what_was_spent_is_reported(given: bytes, micros: int) -> None:
    handler = perdure.Handler("spend", spend)
    outcome = Invocation(handler, context(given)).run()
    assert not isinstance(outcome, Dropped)
    assert to_report(StepLease(), outcome, "").cost_micros == micros


def test_without_a_word_nothing_is_reported_and_the_estimate_counts() -> None:
    handler = perdure.Handler("spend", spend)
    outcome = Invocation(handler, context(b"[]")).run()
    assert not isinstance(outcome, Dropped)
    assert not to_report(StepLease(), outcome, "").HasField("cost_micros")


@pytest.mark.parametrize("given", [b"[-1]", b'["much"]'])
def test_what_is_no_amount_fails_the_try(given: bytes) -> None:
    outcome = Invocation(perdure.Handler("spend", spend), context(given)).run()
    assert dataclasses.asdict(outcome).get("code") == "ValueError"
