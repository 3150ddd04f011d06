import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import perdure
import pytest
from perdure import testing
from perdure.effect_door import (
    BeginAnswer,
    BeginStatus,
    EffectOutcome,
    EffectRequest,
    SettleAnswer,
    SettleStatus,
)
from perdure.effect_outcomes import MAX_RESULT_BYTES
from perdure.effects import Effect, Effects

T = TypeVar("T")


class Other:
    """The other side: what it was asked to do, under which key."""

    def __init__(self, *answers: Any) -> None:
        self.keys: list[str] = []
        self._answers = list(answers)

    def __call__(self, key: str) -> Any:
        """Do it; raise the answers that are errors."""
        self.keys.append(key)
        answer = self._answers.pop(0) if self._answers else {"n": len(self.keys)}
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def effects() -> testing.MemoryEffects:
    return testing.MemoryEffects()


def lose(effects: testing.MemoryEffects, name: str, other: Other, **options: Any) -> None:
    """Have the worker lost in the middle of a call that was performed."""
    other.keys.append("lost")
    with pytest.raises(SystemExit):
        testing.context(effects).effect(name, Other(SystemExit()), **options)


def test_r8_a_settled_effect_is_not_performed_by_a_later_try(
    effects: testing.MemoryEffects,
) -> None:
    other = Other()
    first = testing.context(effects).effect("charge", other)
    second = testing.context(effects, attempt=2).effect("charge", other)
    assert first == second == {"n": 1}
    assert other.keys == [f"{testing.KEY_PREFIX}/charge"]


async def test_r8_the_same_holds_in_an_event_loop(effects: testing.MemoryEffects) -> None:
    other = Other()

    async def perform(key: str) -> Any:
        return other(key)

    first = await testing.context(effects).effect("charge", perform)
    assert await testing.context(effects).effect("charge", perform) == first == {"n": 1}
    assert len(other.keys) == 1


async def test_an_event_loop_takes_a_plain_function_too(effects: testing.MemoryEffects) -> None:
    assert await testing.context(effects).effect("charge", Other()) == {"n": 1}


def test_a_thread_takes_an_async_function_too(effects: testing.MemoryEffects) -> None:
    async def perform(key: str) -> str:
        return key

    assert testing.context(effects).effect("a", perform) == f"{testing.KEY_PREFIX}/a"


def test_r12_a_result_is_kept_byte_for_byte_and_every_try_gets_the_same_value(
    effects: testing.MemoryEffects,
) -> None:
    data = b'{ "big" : 18446744073709551617, "b":1.10 }'
    first = testing.context(effects).effect("a", lambda key: perdure.RawJson(data))
    assert effects["a"].result == data
    assert first["big"] == 2**64 + 1
    assert testing.context(effects).effect("b", lambda key: (1, 2)) == [1, 2]


@pytest.mark.parametrize(
    ("error", "options", "status"),
    [
        (perdure.NotPerformed(), {}, "refused"),
        (perdure.Refused("DECLINED"), {}, "refused"),
        (ConnectionRefusedError(), {"not_performed": (ConnectionRefusedError,)}, "refused"),
        (ConnectionRefusedError(), {"kind": "provider"}, "outcome_unknown"),
        (perdure.Permanent("ODD"), {"kind": "provider"}, "outcome_unknown"),
        (TimeoutError(), {"keep": 60}, "outcome_unknown"),
    ],
)
def test_protocol_p4_what_an_error_says_of_the_effect(
    effects: testing.MemoryEffects, error: Exception, options: Any, status: str
) -> None:
    with pytest.raises(type(error)):
        testing.context(effects).effect("a", Other(error), **options)
    assert effects["a"].status == status


def test_protocol_p4_a_refused_effect_may_be_performed_again_under_its_key(
    effects: testing.MemoryEffects,
) -> None:
    other = Other(perdure.NotPerformed())
    with pytest.raises(perdure.NotPerformed):
        testing.context(effects).effect("a", other)
    assert testing.context(effects).effect("a", other) == {"n": 2}
    assert len(set(other.keys)) == 1


def test_protocol_p4_an_unknown_call_is_repeated_under_its_key_where_the_provider_knows_it(
    effects: testing.MemoryEffects,
) -> None:
    other = Other(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        testing.context(effects).effect("a", other, kind="provider")
    testing.context(effects).effect("a", other, kind="provider")
    assert other.keys == [f"{testing.KEY_PREFIX}/a"] * 2


def test_protocol_p4_an_unknown_call_is_looked_up_before_it_is_repeated(
    effects: testing.MemoryEffects,
) -> None:
    other, asked = Other(), Other(perdure.Performed({"id": 7}))
    lose(effects, "a", other, reconcile=asked)
    found = testing.context(effects).effect("a", other, reconcile=asked)
    assert found == {"id": 7}
    assert (other.keys, asked.keys) == (["lost"], [f"{testing.KEY_PREFIX}/a"])


@pytest.mark.parametrize("answer", ["returned", "raised"])
def test_protocol_p4_what_a_look_up_shows_to_be_undone_is_done(
    effects: testing.MemoryEffects, answer: str
) -> None:
    def look(key: str) -> perdure.NotPerformed:
        if answer == "raised":
            raise perdure.NotPerformed
        return perdure.NotPerformed()

    other = Other()
    lose(effects, "a", other, reconcile=look)
    assert testing.context(effects).effect("a", other, reconcile=look) == {"n": 2}
    assert effects["a"].calls == 2


@pytest.mark.parametrize(
    "asked",
    [
        Other(perdure.Unknown("the CRM is away")),
        Other(OSError("the CRM is away")),
        Other("the CRM is away"),
        Other(perdure.Performed({1, 2})),
    ],
)
def test_protocol_p4_a_look_up_that_finds_nothing_out_performs_nothing(
    effects: testing.MemoryEffects, asked: Other
) -> None:
    other = Other()
    lose(effects, "a", other, reconcile=asked)
    with pytest.raises(perdure.Retryable, match="EFFECT_UNKNOWN"):
        testing.context(effects).effect("a", other, reconcile=asked)
    assert (other.keys, effects["a"].status) == (["lost"], "outcome_unknown")


def test_protocol_p4_an_unknown_call_of_kind_none_ends_the_handler_until_a_person_decides(
    effects: testing.MemoryEffects,
) -> None:
    other = Other(ConnectionResetError())

    def careless(ctx: perdure.HandlerContext) -> Any:
        try:
            return ctx.effect("fax", other)
        except Exception:  # noqa: BLE001 - what a careless handler does
            return "swallowed"

    with pytest.raises(perdure.StepDropped):
        careless(testing.context(effects))
    with pytest.raises(perdure.StepDropped):
        careless(testing.context(effects))
    assert (len(other.keys), effects["fax"].status) == (1, "needs_review")
    effects.settle("fax", {"page": 1})
    assert careless(testing.context(effects)) == {"page": 1}
    assert len(other.keys) == 1


def test_a_person_may_have_it_repeated(effects: testing.MemoryEffects) -> None:
    other = Other()
    lose(effects, "fax", other)
    effects.repeat("fax")
    assert testing.context(effects).effect("fax", other) == {"n": 2}


async def test_a_call_that_takes_too_long_is_cut_and_its_outcome_is_unknown(
    effects: testing.MemoryEffects,
) -> None:
    async def endless(key: str) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await testing.context(effects).effect("a", endless, kind="provider", timeout=0.01)
    assert effects["a"].status == "outcome_unknown"


async def test_a_handler_that_is_stopped_in_its_call_says_that_nobody_knows(
    effects: testing.MemoryEffects,
) -> None:
    begun = asyncio.Event()

    async def endless(key: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(testing.context(effects).effect("a", endless, kind="provider"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert effects["a"].status == "outcome_unknown"


@pytest.mark.parametrize("is_answered_first", [True, False])
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (BeginStatus.BEGUN, ["not_performed"]),
        (BeginStatus.LOOK_UP, ["unknown"]),
        (BeginStatus.SETTLED, []),
    ],
)
async def test_p4_a_handler_that_is_cancelled_before_it_hears_the_answer_makes_no_call_and_says_so(
    status: BeginStatus, told: list[str], is_answered_first: bool
) -> None:
    door, ctx, other = SlowDoor(), testing.context(), Other()
    handler = asyncio.ensure_future(Effects(door, ctx.cancelled).run(Effect("a", other)))
    await door.asked.wait()
    answer = BeginAnswer(status=status, key="k", result=b"1")
    if is_answered_first:
        door.answer.set_result(answer)
    handler.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handler
    if not is_answered_first:
        door.answer.set_result(answer)
    assert (door.told, other.keys) == (told, [])


class SlowDoor:
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: Future[BeginAnswer] = Future()
        self.told: list[str] = []

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        self.asked.set()
        return self.answer

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        self.told.append(str(outcome))
        return done(SettleAnswer(SettleStatus.NOT_PERFORMED))


def test_a_handler_that_was_told_to_stop_begins_no_call(effects: testing.MemoryEffects) -> None:
    ctx = testing.context(effects)
    ctx.cancelled.set()
    with pytest.raises(perdure.Retryable, match="CANCELLED"):
        ctx.effect("a", Other())
    assert "a" not in effects


def test_r8_a_call_that_could_outlast_its_lease_is_not_made_but_begun_anew() -> None:
    """An answer that was 11 s on its way leaves less than the call may take."""
    door, ctx, other = LateDoor(), testing.context(), Other()
    effects = Effects(door, ctx.cancelled)
    assert effects.run(Effect("a", other, timeout=30.0)) == {"n": 1}
    assert [outcome for _, outcome in door.told] == ["not_performed", "performed"]
    assert len({token for token, _ in door.told}) == 2


class LateDoor:
    """Its first answer came so late that a call could outlast its lease."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def begin(self, request: EffectRequest) -> Future[BeginAnswer]:
        late = 0.0 if self.told else 11.0
        end = time.monotonic() - late + request.seconds + 10.0
        return done(BeginAnswer(status=BeginStatus.BEGUN, key="k", expires_at=end))

    def settle(
        self, key: str, token: str, outcome: EffectOutcome, result: bytes = b"", note: str = ""
    ) -> Future[SettleAnswer]:
        self.told.append((token, str(outcome)))
        is_done = outcome is EffectOutcome.PERFORMED
        status = SettleStatus.PERFORMED if is_done else SettleStatus.NOT_PERFORMED
        return done(SettleAnswer(status, result))


def done(answer: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(answer)
    return future


def test_the_same_name_twice_in_one_try_is_refused(effects: testing.MemoryEffects) -> None:
    ctx = testing.context(effects)
    ctx.effect("a", Other())
    with pytest.raises(perdure.EffectInvalid, match="EFFECT_NAME_TAKEN"):
        ctx.effect("a", Other())


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\n", "ä", "-a", "x" * 201])
def test_a_name_that_no_key_can_hold_is_refused(effects: testing.MemoryEffects, name: Any) -> None:
    with pytest.raises(perdure.EffectInvalid, match="EFFECT_NAME_INVALID"):
        testing.context(effects).effect(name, Other())


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "keyed"},
        {"kind": "reconcile"},
        {"kind": "none", "keep": 5},
        {"keep": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
    ],
)
def test_options_that_contradict_each_other_are_refused_before_the_call(
    effects: testing.MemoryEffects, options: Any
) -> None:
    other = Other()
    with pytest.raises(perdure.EffectInvalid, match="EFFECT_OPTIONS_INVALID"):
        testing.context(effects).effect("a", other, **options)
    assert other.keys == []


def test_the_same_key_with_another_request_is_refused(effects: testing.MemoryEffects) -> None:
    testing.context(effects).effect("a", Other(), request={"b": 1, "a": 2})
    testing.context(effects).effect("a", Other(), request={"a": 2, "b": 1})
    with pytest.raises(perdure.EffectInvalid, match="EFFECT_MISMATCH"):
        testing.context(effects).effect("a", Other(), request={"a": 3})
    with pytest.raises(perdure.EffectInvalid, match="EFFECT_REQUEST_INVALID"):
        testing.context(effects).effect("b", Other(), request={1, 2})


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({1, 2}, "EFFECT_RESULT_INVALID"),
        (b"bytes", "EFFECT_RESULT_INVALID"),
        (float("nan"), "EFFECT_RESULT_INVALID"),
        (perdure.RawJson(b"{"), "EFFECT_RESULT_INVALID"),
        ("x" * MAX_RESULT_BYTES, "EFFECT_RESULT_TOO_LARGE"),
    ],
)
def test_a_result_that_cannot_be_kept_is_unknown_and_named(
    effects: testing.MemoryEffects, result: Any, code: str
) -> None:
    with pytest.raises(perdure.EffectInvalid, match=code):
        testing.context(effects).effect("a", lambda key: result, kind="provider")
    assert effects["a"].status == "outcome_unknown"


def test_a_context_without_effects_says_so() -> None:
    ctx = testing.context()
    bare: Callable[..., Any] = perdure.HandlerContext.effect
    without = perdure.HandlerContext(
        **{name: getattr(ctx, name) for name in ctx.__slots__ if name != "effects"}
    )
    with pytest.raises(RuntimeError, match=r"perdure\.testing"):
        bare(without, "a", Other())
