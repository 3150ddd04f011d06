"""What the violation of each named constraint means, in one place.

Partitions carry their parent's constraint and index names with `_YYYYMM` appended (`ensure_month`
sees to that), so a name is looked up without that ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from perdure_runtime.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
)

_PARTITION_ENDING = re.compile(r"_\d{6}$")


def _lost_race(constraint: str) -> PerdureError:
    """Somebody wrote the row first: what is there now decides, so read again."""
    return Aborted(
        f"another change came first ({constraint})",
        reason=Reason.RETRY,
        metadata={"constraint": constraint},
    )


def _fault(constraint: str) -> PerdureError:
    """The machine never asks for such a row."""
    return Internal(
        f"the database refused a row that breaks {constraint}",
        reason=Reason.INTERNAL,
        metadata={"constraint": constraint},
    )


def _version_exists(constraint: str) -> PerdureError:
    return AlreadyExists(
        "this version of the workflow is published; publish a change as a new version",
        reason=Reason.VERSION_EXISTS,
        metadata={"constraint": constraint},
    )


def _lane_gone(constraint: str) -> PerdureError:
    return FailedPrecondition(
        "an operator removed a lane of the document while it was published",
        reason=Reason.LANE_UNKNOWN,
        metadata={"constraint": constraint},
    )


def _key_exists(constraint: str) -> PerdureError:
    return AlreadyExists(
        "another key of the org has this name; revoke or rotate that one, or take another name",
        reason=Reason.KEY_EXISTS,
        metadata={"constraint": constraint},
    )


def _org_gone(constraint: str) -> PerdureError:
    return NotFound(
        "there is no such org",
        reason=Reason.ORG_NOT_FOUND,
        metadata={"constraint": constraint},
    )


def _invalid(field: str, description: str) -> Callable[[str], PerdureError]:
    def make(constraint: str) -> PerdureError:
        return InvalidArgument(
            f"{field} {description}",
            metadata={"constraint": constraint},
            violations=[FieldViolation(field, description)],
        )

    return make


CONSTRAINTS: Mapping[str, Callable[[str], PerdureError]] = MappingProxyType(
    {
        "orgs_pkey": _lost_race,
        "orgs_org_not_empty": _invalid("org", "must not be empty"),
        "orgs_weight_range": _invalid("weight", "must lie between 1 and 100"),
        "lanes_pkey": _lost_race,
        "lanes_lane_plain": _invalid("lane", "must be a letter, then letters, digits, _ or -"),
        "lanes_shards_range": _invalid("shards", "must lie between 1 and 256"),
        "lanes_positive": _invalid("lane", "has a limit or duration that is not positive"),
        "workflows_pkey": _fault,
        "workflows_version_unique": _version_exists,
        "workflows_immutable": _version_exists,
        "workflows_org_known": _invalid("org", "does not exist"),
        "workflows_version_positive": _invalid("version", "must be positive"),
        "workflows_digest_length": _fault,
        "workflow_lanes_pkey": _fault,
        "workflow_lanes_workflow_known": _fault,
        "workflow_lanes_lane_known": _lane_gone,
        "workflow_nodes_pkey": _fault,
        "workflow_nodes_workflow_known": _fault,
        "leaders_pkey": _lost_race,
        "runs_pkey": _lost_race,
        "runs_priority_range": _invalid("priority", "must lie between -100 and 100"),
        "runs_start_key_length": _invalid("start_key", "must have 1 to 200 characters"),
        "runs_ended_when_final": _fault,
        "runs_output_when_completed": _fault,
        "runs_parent_whole": _fault,
        "runs_children_counted": _fault,
        "children_pkey": _lost_race,
        "children_rule_known": _fault,
        "children_status_known": _fault,
        "children_running_is_a_run": _fault,
        "run_tags_pkey": _lost_race,
        "steps_pkey": _lost_race,
        "steps_one_activation": _lost_race,
        "steps_running_has_lease": _fault,
        "steps_try_when_running": _fault,
        "steps_parked_for_a_cause": _fault,
        "runs_ending_while_open": _fault,
        "steps_queue_named": _fault,
        "steps_ended_when_final": _fault,
        "steps_output_when_completed": _fault,
        "attempts_pkey": _lost_race,
        "attempts_outcome_known": _fault,
        "effects_pkey": _lost_race,
        "effects_kind_known": _fault,
        "effects_calls_counted": _fault,
        "run_subjects_pkey": _lost_race,
        "run_subjects_hash_length": _fault,
        "suppressions_pkey": _lost_race,
        "budgets_pkey": _lost_race,
        "budgets_id_unique": _fault,
        "budgets_name_plain": _invalid("name", "must be a letter, then letters, digits, _ . or -"),
        "budgets_period_known": _invalid("period", "must be day, month or total"),
        "budgets_amounts": _invalid("amount", "must not be negative"),
        "budget_charges_pkey": _lost_race,
        "budget_charges_amount": _fault,
        "step_costs_pkey": _lost_race,
        "step_costs_amounts": _fault,
        "run_spending_pkey": _lost_race,
        "run_spending_amounts": _fault,
        "erasures_pkey": _lost_race,
        "erasures_hash_length": _fault,
        "erasure_runs_pkey": _lost_race,
        "erasure_counts_pkey": _lost_race,
        "suppressions_hash_length": _fault,
        "suppressions_purpose_plain": _invalid(
            "purpose", "must be a letter, then letters, digits, _ . or -; or * for every"
        ),
        "effects_settled_has_time": _fault,
        "scopes_pkey": _fault,
        "scopes_output_when_completed": _fault,
        "scopes_error_when_failed": _fault,
        "blocks_pkey": _fault,
        "blocks_ending_known": _fault,
        "blocks_counts_in_order": _fault,
        "exclusive_keys_pkey": _lost_race,
        "exclusive_waiters_pkey": _lost_race,
        "exclusive_waiters_one_place": _lost_race,
        "effect_decisions_pkey": _lost_race,
        "effect_decisions_known": _fault,
        "epochs_pkey": _lost_race,
        "dead_letters_pkey": _lost_race,
        "dead_letters_cause_known": _fault,
        "history_pkey": _lost_race,
        "months_pkey": _lost_race,
        "months_first_day": _fault,
        "start_keys_pkey": _lost_race,
        "correlation_keys_pkey": _lost_race,
        "correlation_keys_length": _invalid("key", "must have 1 to 200 characters"),
        "signals_pkey": _fault,
        "signals_for_somebody": _fault,
        "signals_taken_from_a_run": _fault,
        "signals_one_per_run_and_id": _lost_race,
        "signals_one_per_key_and_id": _lost_race,
        "signal_waits_pkey": _lost_race,
        "outbox_pkey": _fault,
        "outbox_one_per_step": _lost_race,
        "outbox_slot_range": _fault,
        "outbox_sent_has_entry": _fault,
        "connections_pkey": _lost_race,
        "connections_name_plain": _invalid("name", "must be a letter, then letters, digits . _ -"),
        "connections_scheme_known": _invalid("scheme", "is unknown"),
        "connections_positive": _invalid("slots", "and the other limits must be positive"),
        "connections_probe_whole": _fault,
        "connection_secrets_pkey": _lost_race,
        "connection_secrets_of": _lost_race,
        "connection_slots_pkey": _lost_race,
        "connection_slots_of": _lost_race,
        "connection_slots_held_whole": _fault,
        "causes_pkey": _lost_race,
        "causes_id_unique": _fault,
        "step_connections_pkey": _lost_race,
        "run_migrations_pkey": _lost_race,
        "run_migrations_two_versions": _invalid("to_version", "must be another version"),
        "run_migration_outcomes_pkey": _lost_race,
        "run_migration_outcomes_known": _fault,
        "run_migration_outcomes_decided": _fault,
        "audit_log_pkey": _fault,
        "members_pkey": _lost_race,
        "members_org_known": _org_gone,
        "members_member_length": _invalid("member", "must have 1 to 200 characters"),
        "members_roles_known": _invalid("roles", "must be one or more of those that there are"),
        "api_keys_pkey": _lost_race,
        "api_keys_org_known": _org_gone,
        "api_keys_one_name": _key_exists,
        "api_keys_name_plain": _invalid("name", "must be letters, digits, _ . @ or -"),
        "api_keys_roles_known": _invalid("roles", "must be one or more of those that there are"),
        "api_keys_rate_whole": _invalid("rate", "and burst must be positive, or both absent"),
        "api_keys_revoked_whole": _fault,
        "api_key_secrets_pkey": _lost_race,
        "api_key_secrets_of": _fault,
        "api_key_secrets_digest_length": _fault,
        "timers_pkey": _fault,
        "timers_kind_known": _fault,
        "timers_internal_kinds": _fault,
        "timers_step_kinds": _fault,
        "timers_one_per_step": _lost_race,
    }
)
"""Constraint or unique index, without a partition's ending, to what its violation means."""


def violation(constraint: str) -> PerdureError:
    """Return the error that the violation of `constraint` means; Internal for one not listed."""
    return CONSTRAINTS.get(_PARTITION_ENDING.sub("", constraint), _fault)(constraint)
