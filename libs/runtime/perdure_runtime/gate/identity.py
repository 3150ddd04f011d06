"""Who calls. The one place that names the org: never a message, always what the gate knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc

from perdure_runtime.access import Permission
from perdure_runtime.errors import Reason, Unauthenticated


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody known, acting for one org; `actor` names them in the audit log."""

    org: str
    actor: str
    permissions: frozenset[Permission]


Context = grpc.aio.ServicerContext[Any, Any]

Identify = Callable[[Context], Caller]
"""Tells who makes a call; raises Unauthenticated."""

_CALLER: ContextVar[Caller] = ContextVar("caller")


def identify(context: Context) -> Caller:
    """Return whom the gate let in; Unauthenticated, KEY_MISSING, for a call that passed no gate."""
    try:
        return _CALLER.get()
    except LookupError:
        raise Unauthenticated("the call passed no gate", reason=Reason.KEY_MISSING) from None


@contextmanager
def acting_as(caller: Caller) -> Iterator[None]:
    """Have `identify` return this caller while the context lasts, in this task."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        # A stream that is thrown away is closed by another task, in which this was never set.
        with suppress(ValueError):
            _CALLER.reset(token)
