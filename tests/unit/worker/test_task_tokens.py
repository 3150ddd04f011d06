"""Task tokens: what is signed is believed, by whoever has the key, for its org and its time."""

from __future__ import annotations

import base64

import pytest
from perdure_contracts.internal.v1.dispatch_pb2 import StepLease
from perdure_contracts.internal.v1.task_token_pb2 import TaskToken
from perdure_worker.door.tokens import LONGEST_SECONDS, SPARE_SECONDS, TaskTokens

KEY = "a key of sixteen characters and more"
LEASE = StepLease(org="acme", run_id="r", step=3, fence=2, lease_id="l")


class Time:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def made(tokens: TaskTokens, timeout: float | None = None) -> str:
    return tokens.make(TaskToken(lease=LEASE, traceparent="t", connection_generation=4), timeout)


def test_protocol_p3_a_token_says_what_its_holder_acts_for() -> None:
    text = made(TaskTokens([KEY]))
    read = TaskTokens([KEY]).read(text, "acme")
    assert read is not None
    assert (read.lease, read.traceparent, read.connection_generation) == (LEASE, "t", 4)


def test_another_org_s_token_is_none() -> None:
    tokens = TaskTokens([KEY])
    assert tokens.read(made(tokens), "other") is None


def test_every_changed_byte_is_found() -> None:
    tokens = TaskTokens([KEY])
    text = made(tokens)
    signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for place in range(len(signed)):
        forged = bytes([*signed[:place], signed[place] ^ 1, *signed[place + 1 :]])
        assert tokens.read(base64.urlsafe_b64encode(forged).decode(), "acme") is None


@pytest.mark.parametrize("text", ["", "x", "no token", "\N{SNOWMAN}", "=" * 8, "A" * 4000])
def test_what_is_no_token_is_none(text: str) -> None:
    assert TaskTokens([KEY]).read(text, "acme") is None


def test_a_process_without_a_key_believes_itself_alone() -> None:
    alone = TaskTokens()
    assert alone.read(made(alone), "acme") is not None
    assert TaskTokens().read(made(alone), "acme") is None


def test_a_key_is_replaced_while_tokens_of_the_old_one_go_on() -> None:
    old, both, new = TaskTokens([KEY]), TaskTokens(["n" * 16, KEY]), TaskTokens(["n" * 16])
    assert both.read(made(old), "acme") is not None
    assert new.read(made(both), "acme") is not None
    assert new.read(made(old), "acme") is None


@pytest.mark.parametrize(
    ("timeout", "lasts"), [(None, LONGEST_SECONDS), (60.0, 60.0 + SPARE_SECONDS)]
)
def test_a_token_ends_with_what_it_is_for(timeout: float | None, lasts: float) -> None:
    time = Time()
    tokens = TaskTokens([KEY], time)
    text = made(tokens, timeout)
    time.now += lasts - 1
    assert tokens.read(text, "acme") is not None
    time.now += 2
    assert tokens.read(text, "acme") is None
