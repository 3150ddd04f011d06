"""What an error of Redis means to a caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from perdure_runtime.errors import FailedPrecondition, Internal, PerdureError, Reason, Unavailable
from redis import exceptions

REFUSING_WRITES = "refusing_writes"
NOT_READY = "not_ready"
UNREACHABLE = "unreachable"
STREAM_GONE = "stream_gone"
"""Values of the metadata key `trouble` of an Unavailable that Redis caused."""

_MISSING_GROUP_WORDS = ("NOGROUP", "UNBLOCKED")  # the second is said to who waited, before 7
# The client writes the command in front of what the server said of it in a pipeline, and servers
# before 7 the place in the script that met it.
_FIRST_WORD = re.compile(
    r"(?:.* caused error: \W*|Error running script .*: -)?([A-Z]+)\b", re.DOTALL
)
_TROUBLE_BY_WORD = {
    "OOM": REFUSING_WRITES,
    "READONLY": REFUSING_WRITES,
    "MISCONF": REFUSING_WRITES,
    "NOREPLICAS": REFUSING_WRITES,
    "LOADING": NOT_READY,
    "MASTERDOWN": NOT_READY,
    "CLUSTERDOWN": NOT_READY,
    "TRYAGAIN": NOT_READY,
    "BUSY": NOT_READY,
}
# The client strips the first word of the errors that it has classes for.
_TROUBLE_BY_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.OutOfMemoryError, REFUSING_WRITES),
    (exceptions.ReadOnlyError, REFUSING_WRITES),
    (exceptions.BusyLoadingError, NOT_READY),
    (exceptions.MasterDownError, NOT_READY),
    (exceptions.ClusterDownError, NOT_READY),
    (exceptions.TryAgainError, NOT_READY),
)
_REFUSED_USER = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_LOST_CONNECTION = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)


class MissingGroup(Unavailable):
    """The stream or its group is not there; make it, wait, and ask again."""


def classify(error: BaseException) -> PerdureError | None:
    """Return what `error` means, or None when it is no error of Redis."""
    if isinstance(error, _REFUSED_USER):
        return FailedPrecondition(f"Redis refuses this user: {error}", reason=Reason.CONFIG_INVALID)
    trouble = _trouble(error)
    if trouble is not None:
        return unavailable(str(error) or type(error).__name__, trouble)
    if isinstance(error, exceptions.ResponseError):
        if _first_word(error) in _MISSING_GROUP_WORDS:
            return MissingGroup(f"Redis: {error}", reason=Reason.STREAMS_UNAVAILABLE)
        return Internal(f"Redis refused a command: {error}", reason=Reason.INTERNAL)
    return None


def unavailable(detail: str, trouble: str) -> Unavailable:
    """An Unavailable, STREAMS_UNAVAILABLE, that names its trouble."""
    return Unavailable(
        f"Redis cannot be used just now: {detail}",
        reason=Reason.STREAMS_UNAVAILABLE,
        metadata={"trouble": trouble},
    )


def trouble_of(error: PerdureError) -> str:
    """The trouble that an error of this library names, else its reason; for metrics."""
    return error.metadata.get("trouble", error.reason.lower())


@contextmanager
def classified() -> Iterator[None]:
    """Raise what `classify` makes of the client's error in place of that error."""
    try:
        yield
    except Exception as error:
        meaning = classify(error)
        if meaning is None:
            raise
        raise meaning from error


def _trouble(error: BaseException) -> str | None:
    for kind, trouble in _TROUBLE_BY_CLASS:
        if isinstance(error, kind):
            return trouble
    if isinstance(error, exceptions.ResponseError):
        return _TROUBLE_BY_WORD.get(_first_word(error))
    return UNREACHABLE if isinstance(error, _LOST_CONNECTION) else None


def _first_word(error: exceptions.ResponseError) -> str:
    found = _FIRST_WORD.match(str(error))
    return found[1] if found else ""
