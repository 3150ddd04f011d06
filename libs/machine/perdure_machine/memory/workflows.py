"""The published workflows of the engine in memory: versions by name, definitions by id."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count

from perdure_runtime.errors import NotFound, Reason

from perdure_machine.definition.model import Definition
from perdure_machine.definition.parse import canonical, parse


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a workflow."""

    workflow_id: int
    content: bytes
    definition: Definition


class Workflows:
    """What was published; `definitions` are by the id of their version."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], list[Version]] = {}
        self._definitions: dict[int, Definition] = {}
        self._ids = count(1)

    @property
    def definitions(self) -> Mapping[int, Definition]:
        """Every version's definition."""
        return self._definitions

    def publish(self, org: str, document: bytes, lanes: Collection[str]) -> int:
        """Store a document as its name's next version, unless the latest says the same.

        Returns the version. Raises `DefinitionInvalid`.
        """
        definition = parse(document, known_lanes=frozenset(lanes))
        versions = self._versions.setdefault((org, definition.name), [])
        content = canonical(document)
        if not versions or versions[-1].content != content:
            version = Version(next(self._ids), content, definition)
            versions.append(version)
            self._definitions[version.workflow_id] = definition
        return len(versions)

    def resolve(self, org: str, workflow: str, version: int) -> tuple[Version, int]:
        """Return a version and its number, the latest for 0. Raises `NotFound`."""
        versions = self._versions.get((org, workflow), [])
        number = version or len(versions)
        if not 1 <= number <= len(versions):
            asked = f" version {version}" if version else ""
            raise NotFound(
                f"there is no workflow `{workflow}`{asked}", reason=Reason.WORKFLOW_NOT_FOUND
            )
        return versions[number - 1], number
