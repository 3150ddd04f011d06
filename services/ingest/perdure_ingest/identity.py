"""Who calls. The one place that names the org: never a message, always what the door knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody known, acting for one org."""

    org: str


Context = grpc.aio.ServicerContext[Any, Any]

Identify = Callable[[Context], Caller]
"""Tells who makes a call; raises Unauthenticated."""


def everybody_is(org: str) -> Identify:
    """Take every caller for a member of `org`: the door is guarded by the network alone."""
    caller = Caller(org)
    return lambda context: caller
