"""A fail point that breaks what passes it the first time, and lets repeats through."""

from __future__ import annotations

from perdure_runtime import fail_points


class FailOnce:
    """Breaks the connection at the first passing."""

    def __init__(self) -> None:
        self._action: fail_points.Raise | None = fail_points.Raise()

    async def run(self, point: str) -> None:
        """Pass, or break."""
        action, self._action = self._action, None
        if action is not None:
            await action.run(point)

    def run_sync(self, point: str) -> None:
        """Never: the points where it is armed are asynchronous."""
        raise AssertionError(point)
