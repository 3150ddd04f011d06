"""Effects that are not settled, and decisions about them, as messages."""

from __future__ import annotations

from perdure_contracts.v1.effect_service_pb2 import EffectDecision, EffectEntry
from perdure_contracts.v1.run_pb2 import Effect, RunStatus, StepStatus
from perdure_store.reads.effects import EffectDecisionRow, EffectEntryRow

from perdure_ingest.views.instants import timestamp


def effect_entry(row: EffectEntryRow) -> EffectEntry:
    """Show an effect with its run and its step."""
    return EffectEntry(
        run_id=str(row.run_id),
        workflow=row.workflow,
        workflow_version=row.workflow_version,
        run_status=RunStatus.Value(f"RUN_STATUS_{row.run_status.upper()}"),
        effect=Effect(
            key=row.key,
            step=row.step,
            kind=row.kind,
            status=row.status,
            calls=row.calls,
            begun_at=timestamp(row.begun_at),
            settled_at=timestamp(row.settled_at),
        ),
        node=row.node,
        scope=row.scope,
        step_status=StepStatus.Value(f"STEP_STATUS_{row.step_status.upper()}"),
        note=row.note,
        key_expires_at=timestamp(row.key_expires_at),
        can_look_up=row.can_look_up,
        call_expires_at=timestamp(row.lease_expires_at),
    )


def effect_decision(row: EffectDecisionRow) -> EffectDecision:
    """Show a decision."""
    return EffectDecision(
        decided_at=timestamp(row.decided_at),
        decision=row.decision,
        actor=row.actor,
        reason=row.reason,
    )
