"""The lines of a run's history, in words that a support engineer understands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

Details = Mapping[str, object]


def describe(kind: str, details: Details, fence: int | None = None) -> str:
    """Return what a history line says; a kind of a newer version is shown by its name."""
    sentence = _SENTENCES.get(kind)
    return sentence(details, fence) if sentence is not None else kind.replace("_", " ")


def _node(details: Details) -> str:
    return f"`{details.get('node', '?')}`"


def _error(details: Details) -> str:
    message = str(details.get("message", ""))
    return f"{details.get('code', 'ERROR')}" + (f": {message}" if message else "")


def _effect(details: Details) -> str:
    return f"the effect {details.get('effect', '?')}"


def _seconds(details: Details) -> str:
    value = details.get("seconds", 0)
    return f"{float(value):g} s" if isinstance(value, int | float) else "some time"


def _because(details: Details) -> str:
    reason = details.get("reason")
    return f": {reason}" if reason else ""


def _run(details: Details) -> str:
    return f"run {details.get('run_id', '?')}"


def _workflow(details: Details) -> str:
    version = details.get("version")
    return f"`{details.get('workflow', '?')}`" + (f" version {version}" if version else "")


def _below(details: Details) -> str:
    parent = details.get("parent_run_id")
    return f" as a child of run {parent}" if parent else ""


def _limit(details: Details) -> str:
    return "deadline" if details.get("limit") == "deadline" else "age limit"


def _begins(details: Details) -> str:
    return f"at {details['at']}" if "at" in details else f"in {_seconds(details)}"


def _signal(details: Details) -> str:
    return f"`{details.get('signal', '?')}`"


def _key(details: Details) -> str:
    return f" by the key `{details['key']}`" if "key" in details else ""


def _id(details: Details) -> str:
    return f" (id {details['id']})" if "id" in details else ""


def _patience(details: Details) -> str:
    return f" for at most {_seconds(details)}" if "seconds" in details else ""


def _receiver(details: Details) -> str:
    run = details.get("run")
    return f"run {run}" if run else f"the key `{details.get('key', '?')}`"


def _left(details: Details) -> str:
    count = details.get("uncompensated")
    return f"; {count} steps were not compensated" if count else ""


def _then(details: Details) -> str:
    then = details.get("then")
    if then is None:
        return ""
    return f" and leads to {then}" if then else " and leads nowhere"


def _mapped(details: Details) -> str:
    nodes = details.get("nodes")
    return f" ({nodes})" if nodes else ""


def _by(details: Details) -> str:
    by = details.get("by")
    return f", asked by {by}" if by else ""


def _who(details: Details) -> str:
    actor = details.get("actor")
    return f" by {actor}" if actor else ""


_SENTENCES: Mapping[str, Callable[[Details, int | None], str]] = MappingProxyType(
    {
        "run_started": lambda d, f: f"the run started{_below(d)}",
        "run_scheduled": lambda d, f: f"the run is to begin {_begins(d)}",
        "run_queued": lambda d, f: (
            f"the run waits behind {_run(d)} for the exclusive key `{d.get('key', '?')}`"
        ),
        "run_completed": lambda d, f: "every node ended: the run completed",
        "run_finished": lambda d, f: f"{_node(d)} finished the run",
        "run_failing": lambda d, f: (
            f"nothing caught the failure of {_node(d)}: the run will end failed: {_error(d)}"
        ),
        "run_failed": lambda d, f: f"the run failed: {_error(d)}",
        "run_cancelled": lambda d, f: f"the run was cancelled{_who(d)}{_because(d)}",
        "run_ending": lambda d, f: (
            f"the run will end {d.get('status', '?')}; what completed is compensated first"
        ),
        "run_ended": lambda d, f: f"the run ended {d.get('status', '?')}{_left(d)}",
        "compensation_began": lambda d, f: f"{_node(d)} compensates `{d.get('of', '?')}`",
        "compensation_failed": lambda d, f: (
            f"{_node(d)} failed for good, so that was not compensated: {_error(d)}"
        ),
        "compensation_refused": lambda d, f: f"{_node(d)} is not compensated: {d.get('why', '')}",
        "run_erased": lambda d, f: "the run was erased because its subject was",
        "run_terminated": lambda d, f: f"the run was terminated{_who(d)}{_because(d)}",
        "run_paused": lambda d, f: f"the run was paused{_who(d)}{_because(d)}",
        "run_resumed": lambda d, f: f"the run was resumed{_who(d)}{_because(d)}",
        "run_retried": lambda d, f: f"the run is retried from what failed{_who(d)}{_because(d)}",
        "replay_refused": lambda d, f: f"a replay was refused{_because(d)}",
        "dead_letter_discarded": lambda d, f: (
            f"the dead letter was discarded{_who(d)}{_because(d)}"
        ),
        "run_timed_out": lambda d, f: f"the run passed its {_limit(d)} and was closed",
        "run_migrated": lambda d, f: (
            f"the run went from version {d.get('before', '?')} to {d.get('version', '?')}"
            f"{_mapped(d)}{_by(d)}{_because(d)}"
        ),
        "migration_refused": lambda d, f: (
            f"the run stays on its version and does not go to {d.get('version', '?')}:"
            f" {d.get('why', '')}"
        ),
        "step_queued": lambda d, f: f"{_node(d)} waits for a worker",
        "step_leased": lambda d, f: (
            f"{_node(d)} was taken by {d.get('worker', '?')} (acquisition {f})"
        ),
        "step_released": lambda d, f: f"{_node(d)} was handed back before it was done",
        "step_lost": lambda d, f: (
            f"{_node(d)} was lost with {d.get('worker', '?')}, whose lease ran out"
            f" (loss {d.get('losses', '?')})"
        ),
        "step_completed": lambda d, f: f"{_node(d)} completed{_then(d)}",
        "step_stands": lambda d, f: (
            f"{_node(d)} completed: an earlier try of the whole performed its call, which stands"
        ),
        "step_backing_off": lambda d, f: (
            f"{_node(d)} failed and is tried again in {_seconds(d)}: {_error(d)}"
        ),
        "step_failed": lambda d, f: f"{_node(d)} failed: {_error(d)}",
        "step_caught": lambda d, f: f"{_node(d)} failed and that was caught{_then(d)}: {_error(d)}",
        "step_skipped": lambda d, f: f"{_node(d)} was skipped: {d.get('why', '')}",
        "child_wanted": lambda d, f: f"{_node(d)} asks for a run of {_workflow(d)}",
        "child_started": lambda d, f: f"{_node(d)} started {_run(d)} of {_workflow(d)}",
        "child_ended": lambda d, f: (
            f"{_run(d)}, which {_node(d)} had started, is {d.get('status')}"
        ),
        "children_cancelled": lambda d, f: (
            f"{d.get('count', '?')} runs that it had started were asked to end"
        ),
        "step_waiting": lambda d, f: f"{_node(d)} waits for {_seconds(d)}",
        "wait_ended": lambda d, f: f"{_node(d)} has waited long enough",
        "items_began": lambda d, f: (
            f"{_node(d)} has {d.get('items', '?')} items, at most {d.get('at_once', '?')} at once"
        ),
        "pages_began": lambda d, f: (
            f"{_node(d)} asks for its items, at most {d.get('at_once', '?')} at once"
        ),
        "item_failed": lambda d, f: f"item {d.get('index', '?')} of {_node(d)} failed: {_error(d)}",
        "pass_began": lambda d, f: f"pass {d.get('index', '?')} of {_node(d)} began",
        "pass_waits": lambda d, f: (
            f"{_node(d)} had {d.get('passes', '?')} passes; the next begins in {_seconds(d)}"
        ),
        "group_began": lambda d, f: f"{_node(d)} began",
        "signal_received": lambda d, f: f"the signal {_signal(d)} came{_id(d)}",
        "signal_awaited": lambda d, f: (
            f"{_node(d)} waits for the signal {_signal(d)}{_key(d)}{_patience(d)}"
        ),
        "signal_taken": lambda d, f: f"{_node(d)} took the signal {_signal(d)}{_key(d)}{_id(d)}",
        "callback_answered": lambda d, f: f"a callback was answered{_id(d)}",
        "callback_taken": lambda d, f: f"{_node(d)} took the answer to its callback{_id(d)}",
        "signal_emitted": lambda d, f: (
            f"{_node(d)} sends the signal {_signal(d)} to {_receiver(d)}"
        ),
        "emission_refused": lambda d, f: f"the signal could not be sent{_because(d)}",
        "step_parked": lambda d, f: f"{_node(d)} was parked: {d.get('why', '')}",
        "effect_begun": lambda d, f: f"{_node(d)} may call outside: {_effect(d)}",
        "effect_settled": lambda d, f: f"{_effect(d)} was performed",
        "effect_refused": lambda d, f: f"{_effect(d)} was not performed",
        "effect_unknown": lambda d, f: f"nobody knows yet whether {_effect(d)} was performed",
        "effect_awaited": lambda d, f: (
            f"{_node(d)} waits until another's call is over: {_effect(d)}, for {_seconds(d)}"
        ),
        "effect_to_look_up": lambda d, f: f"{_effect(d)} is looked up in {_seconds(d)}",
        "effect_looked_up": lambda d, f: f"{_node(d)} looks up what became of {_effect(d)}",
        "effect_in_review": lambda d, f: (
            f"{_node(d)} waits for a person to say whether {_effect(d)} was performed"
        ),
        "effect_decided": lambda d, f: (
            f"{d.get('actor', '?')} decided that {_effect(d)} is"
            f" {str(d.get('decision', '?')).replace('_', ' ')}{_because(d)}"
        ),
        "failover_awaited": lambda d, f: (
            f"{_node(d)} waits for an operator: the database may have forgotten calls"
        ),
        "step_unparked": lambda d, f: f"{_node(d)} goes on where it was: {d.get('was', '')}",
        "step_cancelled": lambda d, f: (
            f"{_node(d)} was cancelled: {d.get('why', 'its run is closed')}"
        ),
    }
)

KINDS = frozenset(_SENTENCES)
"""Every kind of line that this version writes."""
