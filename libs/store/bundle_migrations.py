"""Puts the repository's migrations into the wheel; a workspace reads them where they stand."""

from pathlib import Path
from typing import Any

# Only the environment of a build has hatchling.
from hatchling.builders.hooks.plugin.interface import (  # type: ignore[import-not-found]
    BuildHookInterface,
)


class BundleMigrations(BuildHookInterface):  # type: ignore[misc]
    """Found by hatchling, which runs it before each build of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the migrations unless the build only links the workspace."""
        if version != "editable":
            folder = Path(self.root).parents[1] / "migrations"
            build_data["force_include"][str(folder)] = "perdure_store/migrations"
