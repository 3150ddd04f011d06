"""One simulation as data: what is run and what goes wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass

from perdure_testkit.simulation.chance import stream
from perdure_testkit.simulation.faults import Injected
from perdure_testkit.simulation.language.definitions import random_document
from perdure_testkit.simulation.language.place import Document


@dataclass(frozen=True, slots=True)
class Case:
    """A seed with the document and the faults that it stands for, or fewer of them.

    `faults` None: as many as the seed has.
    """

    seed: int
    document: Document
    payload: bytes
    runs: int
    faults: frozenset[Injected] | None = None

    @property
    def text(self) -> bytes:
        """The document as it is published."""
        return json.dumps(self.document).encode()


_PAYLOADS = (b'{"n": 1}', b'{"n": 0}', b'{"n": 3}', b"{}")


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    random, document = stream(seed, "case"), random_document(seed)
    payload, runs = random.choice(_PAYLOADS), random.choice((1, 1, 2))
    return Case(seed, document, payload, runs + 1 if "exclusive" in document else runs)
