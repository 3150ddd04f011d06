"""How the work of a simulation goes when nothing is wrong with the engine: by seed and node."""

from __future__ import annotations

import json
from dataclasses import dataclass

from perdure_testkit.simulation.chance import stream


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a node's tries do: fail so often, then end well with `output`; or never."""

    failures: int
    permanent: bool
    output: bytes
    seconds: float

    def fails(self, failures: int) -> bool:
        """Tell whether the try after so many failures fails."""
        return self.permanent or failures < self.failures


_FAILURES = (0, 0, 0, 0, 0, 0, 1, 1, 2)
_SECONDS = (0.05, 0.5, 2.0, 8.0, 25.0, 25.0)


def conduct_of(seed: int, scope: str, node: str) -> Conduct:
    """Return what the tries of a node in a scope do, in every try of a whole around it."""
    random = stream(seed, "conduct", scope, node)
    return Conduct(
        failures=random.choice(_FAILURES),
        permanent=random.random() < 0.08,
        output=json.dumps({"n": random.randrange(4)}).encode(),
        seconds=random.choice(_SECONDS) * random.uniform(0.5, 1.0),
    )
