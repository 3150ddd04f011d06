import pytest
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_worker.outcome import (
    MAX_DETAILS_BYTES,
    Completed,
    Effect,
    ErrorClass,
    Failed,
    bounded,
    refused_report,
    to_report,
)

LEASE = dispatch_pb2.StepLease(org="default", run_id="run", step=1, fence=2, lease_id="lease")


def test_an_output_at_the_limit_passes() -> None:
    outcome = Completed(b"x" * 10)
    assert bounded(outcome, 10) is outcome


def test_f091_f093_one_byte_more_is_a_failure_that_carries_nothing_of_it() -> None:
    outcome = bounded(Completed(b"x" * 11, Effect.PERFORMED), 10)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.error_class) == ("OUTPUT_TOO_LARGE", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.PERFORMED
    assert "x" * 11 not in outcome.message


def test_f093_details_that_are_too_large_are_left_out() -> None:
    failed = Failed(ErrorClass.RETRYABLE, "CODE", "text", details=b"1" * (MAX_DETAILS_BYTES + 1))
    assert to_report(LEASE, failed, "").failure.details == b""


def test_f100_code_and_message_are_cleaned_and_cut() -> None:
    failed = Failed(ErrorClass.RETRYABLE, "C\x00" + "D" * 500, "m\ud800" + "n" * 10_000)
    failure = to_report(LEASE, failed, "").failure
    assert failure.code.startswith("C\ufffdDD")
    assert (len(failure.code), len(failure.message)) == (120, 4096)


def test_a_refused_result_keeps_what_is_known_of_its_effect() -> None:
    refused = refused_report(Completed(b"1", Effect.PERFORMED), "PAYLOAD_INVALID", "too deep")
    assert (refused.code, refused.effect) == ("PAYLOAD_INVALID", Effect.PERFORMED)


@pytest.mark.parametrize("effect", list(Effect))
def test_every_effect_outcome_has_its_own_value_on_the_wire(effect: Effect) -> None:
    sent = to_report(LEASE, Completed(b"1", effect), "").effect_outcome
    name = dispatch_pb2.EffectOutcome.Name(sent).removeprefix("EFFECT_OUTCOME_")
    assert name == ("UNSPECIFIED" if effect is Effect.NONE else effect.name)


def test_a_next_lease_id_rides_along() -> None:
    assert to_report(LEASE, Completed(b"1"), "next").next_lease_id == "next"
