"""Signals as callers send them; one without an id gets one, for ingest's own repeats."""

from __future__ import annotations

import uuid

from perdure_contracts.internal.v1.signals_pb2 import SignalContent
from perdure_contracts.v1.run_pb2 import Signal
from perdure_machine.decide.emitting import EMITTED

from perdure_ingest import limits
from perdure_ingest.start_keys import OWN_PREFIX
from perdure_ingest.validation import Check


def checked_signal(fields: Check, signal: Signal, *, named: bool = True) -> SignalContent:
    """Return the signal as the coordinator takes it; what is wrong with it is noted in `fields`.

    One that is not `named` is for a wait that is known otherwise.
    """
    if signal.name and not named:
        fields.add("signal.name", "must be empty: the callback says which wait it is for")
    signal_id = fields.text("signal.signal_id", signal.signal_id, longest=limits.MAX_SIGNAL_ID)
    for prefix in (OWN_PREFIX, EMITTED):
        if signal_id.startswith(prefix):
            fields.add(
                "signal.signal_id", f"must not begin with {prefix!r}, which is Perdure's own"
            )
    return SignalContent(
        name=fields.text(
            "signal.name", signal.name, longest=limits.MAX_SIGNAL_NAME, required=named
        ),
        data=fields.payload("signal.data", signal.data),
        signal_id=signal_id or f"{OWN_PREFIX}{uuid.uuid4()}",
    )
