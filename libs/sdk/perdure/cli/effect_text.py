"""What people are told of an effect: what, since when, what was said, and what to do now."""

from __future__ import annotations

from datetime import datetime

import click
from perdure_contracts.v1 import effect_service_pb2 as pb

from perdure.cli.output import clock_time, coloured, duration, moment, one_line, word

MAX_TEXT = 400

HEADING = ("key", "kind", "status", "since", "calls", "run", "what was said")


def effect_row(entry: pb.EffectEntry, now: datetime) -> tuple[str, ...]:
    """Return an effect's line in a list."""
    effect = entry.effect
    return (
        effect.key,
        effect.kind,
        coloured(effect.status),
        duration(now - moment(effect.begun_at)),
        str(effect.calls),
        f"{entry.workflow} v{entry.workflow_version}",
        one_line(entry.note, 60),
    )


def effect_screen(answer: pb.GetEffectResponse, now: datetime) -> list[str]:
    """Return the screen of one effect, line by line; `now` is the reader's clock."""
    entry, effect = answer.effect, answer.effect.effect
    begun = moment(effect.begun_at)
    lines = [
        _line("effect", effect.key),
        _line("run", f"{entry.run_id}, {entry.workflow} v{entry.workflow_version}, {_run(entry)}"),
        _line("step", f"{effect.step}, {_node(entry)}, {word(entry, 'step_status')}"),
        _line("status", f"{coloured(effect.status)} ({effect.kind})"),
        _line(
            "calls",
            f"{effect.calls}, the first at {clock_time(begun)}, {duration(now - begun)} ago",
        ),
        _line("said", one_line(entry.note, MAX_TEXT) or "nothing"),
    ]
    if entry.HasField("key_expires_at"):
        lines.append(_line("key", key_life(moment(entry.key_expires_at), now)))
    if answer.HasField("result"):
        lines.append(_line("result", one_line(answer.result.decode(errors="replace"), MAX_TEXT)))
    lines += [_line("decided", _decision(each)) for each in answer.decisions]
    return [*lines, *_do_this(entry, now)]


def key_life(expires: datetime, now: datetime) -> str:
    """Say how long the provider still knows the key."""
    if expires > now:
        return f"the provider keeps it for another {duration(expires - now)}"
    return (
        f"the provider may have forgotten it {duration(now - expires)} ago: a repeat under it "
        "would count as a new request"
    )


def review_commands(key: str) -> list[str]:
    """Return the commands that decide about an effect, each with when to use it."""
    rows = (
        (f"perdure effect settle {key} --result JSON", "it was done, and came to this"),
        (f"perdure effect repeat {key}", "it was not done"),
        (f"perdure effect fail {key}", "nobody can find out, or it is not wanted any more"),
    )
    width = max(len(command) for command, _ in rows)
    return [f"  {command:<{width}}  {when}" for command, when in rows]


def _do_this(entry: pb.EffectEntry, now: datetime) -> list[str]:
    effect = entry.effect
    if effect.status == "needs_review":
        asked = "find out from the other side whether it was done (it was sent the key), then say"
        return [_line("do this", f"{asked}:"), *review_commands(effect.key)]
    return [_line("do this", f"nothing: {_nothing(entry, now)}")]


def _nothing(entry: pb.EffectEntry, now: datetime) -> str:
    status = entry.effect.status
    if status == "in_flight" and entry.HasField("call_expires_at"):
        return f"a call may be open until {clock_time(moment(entry.call_expires_at))}"
    if status == "in_flight":
        return "a call may be open as long as its step's lease"
    if status == "outcome_unknown" and entry.can_look_up:
        return "a worker looks up what became of it"
    if status == "outcome_unknown":
        return "it is repeated under its key, which the provider knows"
    return "it is decided"


def _run(entry: pb.EffectEntry) -> str:
    return word(entry, "run_status").replace("_", " ")


def _node(entry: pb.EffectEntry) -> str:
    return f"{entry.scope}/{entry.node}" if entry.scope else entry.node


def _decision(each: pb.EffectDecision) -> str:
    reason = f": {each.reason}" if each.reason else ""
    what = each.decision.replace("_", " ")
    return f"{what} by {each.actor} at {clock_time(moment(each.decided_at))}{reason}"


def _line(label: str, text: str) -> str:
    return f"{click.style(f'{label:<8}', dim=True)} {text}"
