"""What a handler raises to say how its try failed; the workflow's `retry` decides what follows.

HandlerError         (abstract)
├── Retryable        it may go well next time                       class `retryable`
├── RateLimited      the other side wants fewer calls               class `rate_limited`
├── Unauthorised     the credentials must be repaired by a person   class `authorisation`
└── Permanent        another try cannot go better                   class `permanent`

Two of them say beside that that an effect (`ctx.effect`) was certainly not performed:
`NotPerformed`, a `Retryable`, and `Refused`, a `Permanent`. Any other exception counts as
`Retryable` with the exception's class name as its code.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HandlerError(Exception):
    """Base of what a handler raises on purpose.

    `code` is the stable name that definitions match on, in capitals such as `NO_SUCH_CUSTOMER`;
    `message` is for people; `details` is any value that JSON can hold.
    """

    error_class: ClassVar[str] = "retryable"
    retry_after: float | None = None

    def __init__(self, code: str, message: str = "", *, details: Any = None) -> None:
        self.code = code
        self.message = message
        self.details = details
        super().__init__(f"{code}: {message}" if message else code)


class Retryable(HandlerError):
    """It may go well next time, at the earliest after `retry_after` seconds if given."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retry_after: float | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(code, message, details=details)
        self.retry_after = retry_after


class RateLimited(Retryable):
    """The other side wants fewer calls; `retry_after` seconds are what it asked for."""

    error_class = "rate_limited"


class Unauthorised(HandlerError):
    """The credentials of a `connection` were refused, empty for the node's own; a person must
    repair them.
    """

    error_class = "authorisation"
    connection: str = ""

    def __init__(
        self, code: str, message: str = "", *, connection: str = "", details: Any = None
    ) -> None:
        super().__init__(code, message, details=details)
        self.connection = connection


class Permanent(HandlerError):
    """Another try cannot go better."""

    error_class = "permanent"


class NotPerformed(Retryable):
    """An effect certainly was not performed, and may be later.

    `perform` raises it; `reconcile` returns it, or raises it.
    """

    def __init__(
        self,
        code: str = "NOT_PERFORMED",
        message: str = "",
        *,
        retry_after: float | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(code, message, retry_after=retry_after, details=details)


class Refused(Permanent):
    """The other side refused an effect for good; it was not performed."""


class EffectInvalid(Permanent):
    """An effect is used in a way that no try can make work; the code says which."""


class StepDropped(BaseException):
    """The step goes on without this handler, which must end at once; nothing it does counts.

    It waits for a person, for another's call, or belongs to another worker. This is no `Exception`,
    so that `except Exception` lets it pass; `finally` runs as ever.
    """
