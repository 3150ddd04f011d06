"""Performed, not performed, or unknown: for every way in which a call can end (design 8, 11)."""

import pytest
from perdure_worker.executors.verdicts import Break, Verdict, of_break, of_status, of_unusable
from perdure_worker.outcome import Effect, ErrorClass

NO, UNKNOWN, YES = Effect.NOT_PERFORMED, Effect.UNKNOWN, Effect.PERFORMED
AGAIN, NEVER = ErrorClass.RETRYABLE, ErrorClass.PERMANENT

BREAKS = {
    Break.UNSENDABLE: (NO, NEVER),
    Break.ADDRESS_REFUSED: (NO, NEVER),
    Break.NAME_UNRESOLVED: (NO, AGAIN),
    Break.CONNECT_FAILED: (NO, AGAIN),
    Break.TLS_FAILED: (NO, AGAIN),
    Break.METHOD_UNKNOWN: (NO, NEVER),
    Break.UNDESCRIBED: (NO, AGAIN),
    Break.TIMEOUT_BEFORE: (NO, AGAIN),
    Break.BROKEN_AFTER: (UNKNOWN, AGAIN),
    Break.TIMEOUT_AFTER: (UNKNOWN, AGAIN),
}


@pytest.mark.parametrize("broke", Break)
def test_protocol_p4_a_break_is_unknown_only_after_something_was_sent(broke: Break) -> None:
    verdict = of_break(broke)
    assert (verdict.effect, verdict.error_class) == BREAKS[broke]


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_is_judged_by_the_one_rule(status: int) -> None:
    verdict = of_status(status)
    is_yes = 200 <= status <= 299
    is_no = 400 <= status <= 499 and status not in (408, 409)
    assert verdict.effect is (YES if is_yes else NO if is_no else UNKNOWN)
    assert verdict.code == f"HTTP_{status}"


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (302, NEVER),
        (400, NEVER),
        (401, ErrorClass.AUTHORISATION),
        (403, ErrorClass.AUTHORISATION),
        (404, NEVER),
        (408, AGAIN),
        (409, AGAIN),
        (429, ErrorClass.RATE_LIMITED),
        (500, AGAIN),
        (503, AGAIN),
        (599, AGAIN),
    ],
)
def test_what_a_status_means_for_the_next_try(status: int, error_class: ErrorClass) -> None:
    assert of_status(status).error_class is error_class


def test_an_answer_of_no_use_was_performed_where_its_status_is_accepted() -> None:
    assert of_unusable(404, "RESPONSE_TOO_LARGE") == Verdict(YES, NEVER, "RESPONSE_TOO_LARGE")
