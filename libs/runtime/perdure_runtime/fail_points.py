"""Named places, at each commit and each send, where a test can raise, pause or kill the process.

A module declares its points as constants and wraps the guarded operation:

    COMMIT_EVENTS = declare("coordinator.commit_events")

    async with COMMIT_EVENTS.around():
        await connection.execute("COMMIT")

Each point has two sides. `before` stands for an operation that never happened, `after` for one that
happened and whose answer was lost. `after` is not reached when the operation itself raises.

Points are armed in tests by `arm(...)`, or in child processes by the environment:

    PERDURE_FAIL_POINTS="coordinator.commit_events.after=kill:/tmp/token;relay.xadd.before=raise"

    raise            raises FailPointHit, once per passing
    kill[:TOKEN]     SIGKILLs this process; with TOKEN only the process that unlinks that file dies,
                     so that it dies once over restarts
    pause:RELEASE    makes the file RELEASE.reached and waits until the file RELEASE exists

Unarmed, a side costs one attribute check.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason, Unavailable

ENVIRONMENT_VARIABLE = "PERDURE_FAIL_POINTS"

FILE_POLL_SECONDS = 0.01
"""How often a paused process looks for its release file."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


class Side(StrEnum):
    """Which side of the guarded operation."""

    BEFORE = "before"
    AFTER = "after"


class FailPointHit(Unavailable):
    """Raised by an armed point; stands for a connection that broke at this line."""

    def __init__(self, point: str) -> None:
        super().__init__(f"fail point {point}", reason=Reason.FAIL_POINT, metadata={"point": point})


class Action(Protocol):
    """What an armed side does to whoever passes it; `point` is its name with the side."""

    async def run(self, point: str) -> None:
        """Act on a passing coroutine."""

    def run_sync(self, point: str) -> None:
        """Act on a passing thread."""


ActionT = TypeVar("ActionT", bound=Action)


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise FailPointHit."""

    async def run(self, point: str) -> None:
        """Raise FailPointHit."""
        raise FailPointHit(point)

    def run_sync(self, point: str) -> None:
        """Raise FailPointHit."""
        raise FailPointHit(point)


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL this process; with `token`, only if it is the one that unlinks that file."""

    token: Path | None = None

    async def run(self, point: str) -> None:
        """Die."""
        self.run_sync(point)

    def run_sync(self, point: str) -> None:
        """Die."""
        if self._is_chosen():
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_chosen(self) -> bool:
        if self.token is None:
            return True
        try:
            self.token.unlink()
        except FileNotFoundError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Pause:
    """Hold whoever passes: a test in the same loop awaits `reached`, then sets `release`."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, point: str) -> None:
        """Signal `reached`, then wait for `release`."""
        self.reached.set()
        await self.release.wait()

    def run_sync(self, point: str) -> None:
        """Refuse: a blocked thread of the test's own loop could never be released."""
        raise RuntimeError(f"{point} is passed without awaiting: pause it with PauseOnFile")


@dataclass(frozen=True, slots=True)
class PauseOnFile:
    """Hold whoever passes until the file `release` exists; `<release>.reached` says so."""

    release: Path

    @property
    def reached(self) -> Path:
        """The file that says that somebody is held."""
        return self.release.with_name(self.release.name + ".reached")

    async def run(self, point: str) -> None:
        """Make the `reached` file, then wait for the release file without blocking the loop."""
        self.reached.touch()
        while not self.release.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(FILE_POLL_SECONDS)

    def run_sync(self, point: str) -> None:
        """Make the `reached` file, then wait for the release file."""
        self.reached.touch()
        while not self.release.exists():
            time.sleep(FILE_POLL_SECONDS)


class Around:
    """What `FailPoint.around` returns."""

    __slots__ = ("_point",)

    def __init__(self, point: FailPoint) -> None:
        self._point = point

    async def __aenter__(self) -> None:
        await self._point.before()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._point.after()


class AroundSync:
    """What `FailPoint.around_sync` returns."""

    __slots__ = ("_point",)

    def __init__(self, point: FailPoint) -> None:
        self._point = point

    def __enter__(self) -> None:
        self._point.before_sync()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._point.after_sync()


class FailPoint:
    """One named place. Made by `declare`, once, as a module constant."""

    __slots__ = ("_after", "_before", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._before: Action | None = None
        self._after: Action | None = None

    async def before(self) -> None:
        """Pass the side before the operation."""
        if self._before is not None:
            await self._before.run(f"{self.name}.before")

    async def after(self) -> None:
        """Pass the side after the operation has taken effect."""
        if self._after is not None:
            await self._after.run(f"{self.name}.after")

    def before_sync(self) -> None:
        """Pass the side before the operation, in code that does not await."""
        if self._before is not None:
            self._before.run_sync(f"{self.name}.before")

    def after_sync(self) -> None:
        """Pass the side after the operation has taken effect, in code that does not await."""
        if self._after is not None:
            self._after.run_sync(f"{self.name}.after")

    def around(self) -> Around:
        """Pass both sides; `after` only if the body did not raise."""
        return Around(self)

    def around_sync(self) -> AroundSync:
        """Pass both sides in code that does not await; `after` only if the body did not raise."""
        return AroundSync(self)

    def set_action(self, side: Side, action: Action | None) -> Action | None:
        """Arm one side, or disarm it with None; return what was armed before."""
        if side is Side.BEFORE:
            previous, self._before = self._before, action
        else:
            previous, self._after = self._after, action
        return previous


class Registry:
    """The points of one process, by name, and what the environment armed."""

    def __init__(self) -> None:
        self._points: dict[str, FailPoint] = {}
        self._armed: dict[tuple[str, Side], Action] = {}

    def declare(self, name: str) -> FailPoint:
        """Make the point `name`; ValueError if the name is malformed or taken."""
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"fail point {name!r} is not of the form component.operation")
        if name in self._points:
            raise ValueError(f"fail point {name!r} is declared twice")
        point = self._points[name] = FailPoint(name)
        for side in Side:
            if (name, side) in self._armed:
                point.set_action(side, self._armed[name, side])
        return point

    def declared(self) -> Mapping[str, FailPoint]:
        """All points of the modules imported so far, by name."""
        return dict(self._points)

    @contextmanager
    def arm(self, name: str, side: Side | str, action: ActionT) -> Iterator[ActionT]:
        """Arm one side while the context lasts; KeyError if the point is not declared."""
        point, at = self._points[name], Side(side)
        previous = point.set_action(at, action)
        try:
            yield action
        finally:
            point.set_action(at, previous)

    def arm_from(self, environ: Mapping[str, str]) -> None:
        """Arm what `PERDURE_FAIL_POINTS` says, also for points that are declared later.

        Raises InvalidArgument, CONFIG_INVALID, that lists everything malformed.
        """
        self._armed = parse(environ.get(ENVIRONMENT_VARIABLE, ""))
        for (name, side), action in self._armed.items():
            if name in self._points:
                self._points[name].set_action(side, action)


def parse(text: str) -> dict[tuple[str, Side], Action]:
    """Read `point.side=action[:path]` entries that are parted by semicolons.

    Raises InvalidArgument, CONFIG_INVALID, that lists everything malformed.
    """
    armed: dict[tuple[str, Side], Action] = {}
    problems: list[FieldViolation] = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        try:
            key, action = _parse_entry(entry)
        except ValueError as problem:
            problems.append(FieldViolation(ENVIRONMENT_VARIABLE, f"{entry!r}: {problem}"))
        else:
            armed[key] = action
    if problems:
        listed = "\n".join(f"  {problem.field}: {problem.description}" for problem in problems)
        raise InvalidArgument(
            f"fail points cannot be armed:\n{listed}",
            reason=Reason.CONFIG_INVALID,
            violations=problems,
        )
    return armed


def _parse_entry(entry: str) -> tuple[tuple[str, Side], Action]:
    target, equals, what = entry.partition("=")
    name, _, side = target.strip().rpartition(".")
    if not equals or _NAME.fullmatch(name) is None or side not in tuple(Side):
        raise ValueError("write component.operation.before=ACTION or component.operation.after=...")
    return (name, Side(side)), _parse_action(what.strip())


def _parse_action(text: str) -> Action:
    kind, _, path = text.partition(":")
    match kind, path:
        case "raise", "":
            return Raise()
        case "kill", _:
            return Kill(Path(path) if path else None)
        case "pause", _ if path:
            return PauseOnFile(Path(path))
        case _:
            raise ValueError("the action is raise, kill, kill:TOKEN_FILE or pause:RELEASE_FILE")


_registry = Registry()

declare = _registry.declare
declared = _registry.declared
arm = _registry.arm
arm_from = _registry.arm_from
