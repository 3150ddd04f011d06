"""Signals as a caller has them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from perdure_contracts.v1.run_pb2 import Signal

from perdure.payload import to_payload

OWN_ID_PREFIX = "sdk:"
"""Begins the signal ids that this client makes itself."""


@dataclass(frozen=True, slots=True)
class StartSignal:
    """A signal that is sent with a start; `data` is a value, or bytes that are JSON already.

    Without an id it gets one of its own for the repeats of the call.
    """

    name: str
    data: object = None
    signal_id: str | None = None

    def message(self) -> Signal:
        """Return what is sent; each call makes an id of its own where there is none."""
        own = f"{OWN_ID_PREFIX}{uuid.uuid4()}"
        return Signal(
            name=self.name,
            data=to_payload(self.data),
            signal_id=own if self.signal_id is None else self.signal_id,
        )
