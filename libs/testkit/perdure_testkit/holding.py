"""The test's side of the handler `test.hold`: see it run, in which process, and let it go on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from perdure_testkit.waiting import ENGINE_PATIENCE, eventually

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Holding:
    """One step that is to be held; `given` is the input of its handler."""

    started: Path
    release: Path

    @classmethod
    def within(cls, directory: Path) -> Holding:
        """Return a new one whose files stand in `directory`."""
        started = directory / f"held-{next(_numbers)}"
        return cls(started, started.with_suffix(".release"))

    @property
    def given(self) -> dict[str, str]:
        """The input of the handler."""
        return {"started": str(self.started), "release": str(self.release)}

    @property
    def pid(self) -> int:
        """The process in which it ran the latest time. FileNotFoundError if it never ran."""
        return int(self.started.read_text(encoding="utf-8"))

    @property
    def was_told_to_stop(self) -> bool:
        """Whether the handler heard that it should stop."""
        return self.started.with_suffix(".cancelled").exists()

    async def wait_running(self, *, within: float = ENGINE_PATIENCE) -> int:
        """Return the process in which the step runs, once it does."""
        await eventually(self.started.exists, within=within, what="the held step runs")
        return self.pid

    async def wait_moved(self, old: int, *, within: float = ENGINE_PATIENCE) -> int:
        """Return the process in which the step runs, once that is not `old`."""
        await eventually(lambda: self.pid != old, within=within, what="another process runs it")
        return self.pid

    def let_go(self) -> None:
        """Let every try of the step return."""
        self.release.touch()
