"""Collects everything wrong with a definition, so that an author sees all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

from perdure_machine.definition.model import Problem
from perdure_machine.payload import Path

MAX_PROBLEMS = 100
"""Most problems in one answer; an author who has more wants the first ones."""


class DefinitionInvalid(InvalidArgument):
    """The document is no definition; `problems` holds everything wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems[:MAX_PROBLEMS])
        count = len(problems)
        super().__init__(
            f"the definition has {count} problem{'s' if count != 1 else ''}: {problems[0]}",
            reason=Reason.DEFINITION_INVALID,
            violations=[
                FieldViolation(p.path, p.reason + (f" ({p.hint})" if p.hint else ""))
                for p in self.problems
            ],
        )


class Problems:
    """What was found so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.warnings: list[Problem] = []

    def add(self, path: Path, reason: str, hint: str = "") -> None:
        """Note a problem that refuses the document."""
        self._note(self.found, Problem(place(path), reason, hint))

    def add_unless_noted(self, path: Path, reason: str, hint: str = "") -> None:
        """Note a problem unless the schema has already said what is wrong at this place."""
        if all(problem.path != place(path) for problem in self.found):
            self.add(path, reason, hint)

    def warn(self, path: Path, reason: str, hint: str = "") -> None:
        """Note a doubt that the author should see."""
        self._note(self.warnings, Problem(place(path), reason, hint))

    def refuse(self) -> None:
        """Raise `DefinitionInvalid` if there is any problem."""
        if self.found:
            raise DefinitionInvalid(self.found)

    @staticmethod
    def _note(notes: list[Problem], problem: Problem) -> None:
        if problem not in notes:
            notes.append(problem)


def place(path: Path) -> str:
    """Return a path as people write it: `nodes.send.retry[0].max`, `document` for the top."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "document"
