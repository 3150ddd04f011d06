import pytest
from perdure_runtime.errors import FailedPrecondition, Internal, PerdureError, Reason, Unavailable
from perdure_streams.errors import MissingGroup, classified, classify, trouble_of
from redis import exceptions


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (exceptions.OutOfMemoryError("command not allowed"), "refusing_writes"),
        (exceptions.ReadOnlyError("You can't write"), "refusing_writes"),
        (exceptions.ResponseError("MISCONF Redis is configured"), "refusing_writes"),
        (exceptions.ResponseError("NOREPLICAS Not enough"), "refusing_writes"),
        (
            exceptions.ResponseError(
                "Command # 1 (XADD x caused error: OOM) of pipeline caused error: "
                "('NOREPLICAS Not enough',)"
            ),
            "refusing_writes",
        ),
        (
            exceptions.ResponseError(
                "Error running script (call to f_1): @user_script:6: @user_script: 6: -OOM command"
            ),
            "refusing_writes",
        ),
        (exceptions.BusyLoadingError("loading the dataset"), "not_ready"),
        (exceptions.ResponseError("LOADING Redis is loading"), "not_ready"),
        (exceptions.ConnectionError("refused"), "unreachable"),
        (exceptions.TimeoutError("too long"), "unreachable"),
        (OSError("no route"), "unreachable"),
    ],
)
def test_trouble_that_passes_is_unavailable_and_named(error: Exception, trouble: str) -> None:
    meaning = classify(error)
    assert isinstance(meaning, Unavailable)
    assert meaning.reason is Reason.STREAMS_UNAVAILABLE
    assert trouble_of(meaning) == trouble


@pytest.mark.parametrize("text", ["NOGROUP No such key", "UNBLOCKED the stream key is gone"])
def test_a_missing_group_has_a_type_of_its_own(text: str) -> None:
    assert isinstance(classify(exceptions.ResponseError(text)), MissingGroup)


@pytest.mark.parametrize(
    "error",
    [exceptions.AuthenticationError("no"), exceptions.NoPermissionError("no permission")],
)
def test_a_refused_user_is_not_cured_by_waiting(error: Exception) -> None:
    assert isinstance(classify(error), FailedPrecondition)


def test_a_refused_command_is_a_fault_of_ours() -> None:
    assert isinstance(classify(exceptions.ResponseError("WRONGTYPE")), Internal)


def test_errors_of_others_pass_unchanged() -> None:
    assert classify(KeyError("x")) is None
    with pytest.raises(KeyError), classified():
        raise KeyError("x")


def test_a_classified_error_keeps_its_cause() -> None:
    cause = exceptions.ConnectionError("refused")
    with pytest.raises(PerdureError) as caught, classified():
        raise cause
    assert caught.value.__cause__ is cause
