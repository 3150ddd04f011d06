"""Named effects of a handler: each is performed once, whatever happens to its worker.

    @handlers.handler("order.settle")
    async def settle(order, ctx):
        charge = await ctx.effect("charge", lambda key: bank.charge(key, order), kind="provider")
        await ctx.effect("contact", lambda key: crm.put(key, order), reconcile=crm.look_up)
        return charge

What an effect came to is kept under its key. A later try of the step is given it and does not
perform again, so the handler goes on where it was: it is durable code.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.cancellation import Cancellation
from perdure.effect_calls import Course, InLoop, InThread, is_in_loop, run_blocking
from perdure.effect_door import EffectDoor, EffectRequest
from perdure.effect_outcomes import digest
from perdure.handler_errors import EffectInvalid, NotPerformed, Refused

DEFAULT_SECONDS = 30.0
"""Longest time of a call that sets no other."""

MAX_SECONDS = 86400.0
KINDS = ("provider", "reconcile", "none")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")


@dataclass(frozen=True, slots=True)
class Effect:
    """What `HandlerContext.effect` was given."""

    name: str
    perform: Callable[[str], Any]
    kind: str | None = None
    reconcile: Callable[[str], Any] | None = None
    keep: float | None = None
    timeout: float = DEFAULT_SECONDS
    request: Any = None
    not_performed: tuple[type[Exception], ...] = ()

    def to_request(self) -> EffectRequest:
        """Return the wish to make its call, not yet with a token. Raises EffectInvalid."""
        self._check()
        return EffectRequest(
            name=self.name,
            kind=self.kind or self._kind(),
            token="",
            seconds=self.timeout,
            digest=digest(self.request),
            keep=self.keep,
            can_look_up=self.reconcile is not None,
        )

    def _kind(self) -> str:
        if self.keep is not None:
            return "provider"
        return "none" if self.reconcile is None else "reconcile"

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise EffectInvalid(
                "EFFECT_NAME_INVALID",
                f"{self.name!r} is no name of an effect: use up to 200 letters, digits and any of "
                "_ - . : beginning with a letter, a digit or _",
            )
        for problem in self._problems():
            raise EffectInvalid("EFFECT_OPTIONS_INVALID", f"effect {self.name}: {problem}")

    def _problems(self) -> list[str]:
        problems = []
        if self.kind is not None and self.kind not in KINDS:
            problems.append(f"kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.kind == "reconcile" and self.reconcile is None:
            problems.append("kind reconcile needs `reconcile`, which finds out")
        if self.kind == "none" and (self.reconcile is not None or self.keep is not None):
            problems.append("kind none has neither `reconcile` nor `keep`")
        if not 0 < self.timeout <= MAX_SECONDS:
            problems.append(f"`timeout` is over 0 and at most {MAX_SECONDS:g} seconds")
        if self.keep is not None and not self.keep > 0:
            problems.append("`keep` is over 0 seconds")
        return problems


class Effects:
    """The effects of one try; handlers' threads and coroutines may share it."""

    def __init__(self, door: EffectDoor, cancelled: Cancellation) -> None:
        self._door = door
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def run(self, effect: Effect) -> Any:
        """Have the effect done: an awaitable in an event loop, elsewhere its result."""
        request = effect.to_request()
        self._take(effect.name)
        if is_in_loop():
            return self._course(effect, request, InLoop()).run()
        return run_blocking(self._course(effect, request, InThread()).run())

    def _take(self, name: str) -> None:
        with self._lock:
            if name in self._names:
                raise EffectInvalid(
                    "EFFECT_NAME_TAKEN",
                    f"this try has an effect {name!r} already: give each call another name, such "
                    "as one with the number of its item",
                )
            self._names.add(name)

    def _course(self, effect: Effect, request: EffectRequest, waiting: InLoop | InThread) -> Course:
        return Course(
            self._door,
            waiting,
            self._cancelled,
            request,
            effect.perform,
            effect.reconcile,
            (NotPerformed, Refused, *effect.not_performed),
        )
