"""Errors for people, in one shape: what, where, do this. The exit status says whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any

import click

from perdure.errors import NOT_REACHED, PerdureApiError, PerdureUnavailable

USER_ERROR = 1
"""The request, or what it asks about, is at fault."""

UNAVAILABLE = 3
"""Nobody answered; the same command may succeed later. (2 is click's: wrong usage.)"""

_SEE = "see what the message names, correct the request and send it again"

_DO_THIS: Mapping[str, str] = MappingProxyType(
    {
        NOT_REACHED: "start one with `perdure dev`, or name another with --address or "
        "PERDURE_ADDRESS",
        "DEFINITION_INVALID": "correct the document; `perdure workflow validate` shows the same",
        "WORKFLOW_NOT_FOUND": "see `perdure workflow list`, or publish it: "
        "`perdure workflow publish FILE`",
        "RUN_NOT_FOUND": "see `perdure run list`",
        "MIGRATION_INVALID": "correct the --map options; `perdure workflow show` shows the nodes",
        "CALLBACK_INVALID": "give the token as the workflow handed it out, in the run's org",
        "CALLBACK_SPENT": "see `perdure run history`: the wait ended; send a signal by its name",
        "RUN_CLOSED": "nothing: the run has ended, see `perdure run show`",
        "DEAD_LETTER_NOT_FOUND": "see `perdure dlq list`",
        "EFFECT_NOT_FOUND": "see `perdure effect list`, or the effects in `perdure run show`",
        "EFFECT_DECIDED": "nothing: see `perdure effect show`",
        "EFFECT_OPEN": "wait: see `perdure effect show` for what goes on",
        "EFFECT_KEY_EXPIRED": "make sure that it was not done, then give --although-key-expired",
        "EFFECT_UNRESOLVED": "ask the provider what was done, then start a new run for the rest",
        "RUN_COMPENSATED": "start a new run",
        "RUN_ALREADY_STARTED": "look at the run of this key, or start under another --key",
        "EXCLUSIVE_KEY_HELD": "wait for the run that is named, or cancel it, then start again",
        "FIELD_INVALID": "correct what is listed",
        "PAYLOAD_INVALID": "give valid JSON: '{\"a\": 1}', @FILE, or - for stdin",
        "PAYLOAD_TOO_LARGE": "send less: put large data where both sides can reach it, and send a "
        "reference",
        "KEY_MISSING": "set PERDURE_API_KEY to a key; that of a dev stack is in .perdure/api_key, "
        "elsewhere `perdure keys bootstrap` makes the first one",
        "KEY_INVALID": "set PERDURE_API_KEY to a key of this installation",
        "KEY_EXPIRED": "set PERDURE_API_KEY to the key's newest secret, or to another key",
        "KEY_REVOKED": "set PERDURE_API_KEY to another key",
        "KEY_EXISTS": "take another name, or `perdure keys rotate` the key that is there",
        "KEY_NOT_FOUND": "see `perdure keys list`",
        "JOB_NOT_FOUND": "see `perdure job list`; a run that is no job: `perdure run show`",
        "JOB_TYPE_NOT_FOUND": "see `perdure job type list`, or make it: `perdure job type put`",
        "JOB_ALREADY_ENQUEUED": "look at the job of this key, or enqueue under another --key",
        "BUDGET_NOT_FOUND": "see `perdure budget list`",
        "CONNECTION_NOT_FOUND": "see `perdure connection list`",
        "LANE_NOT_FOUND": "see `perdure lane list`",
        "MEMBER_NOT_FOUND": "see `perdure member list`",
        "PERMISSION_MISSING": "use a key with the permission that is named",
        "RATE_LIMITED": "wait a little, then try again",
        "INTERNAL": "look at the log of ingest; it holds the cause",
    }
)


class Failure(click.ClickException):
    """A command that could not do its work; shown on stderr, then the process ends."""

    exit_code = USER_ERROR

    def __init__(self, what: str, *, where: str, do_this: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do_this = do_this

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the three lines."""
        for label, text in (
            ("what", self.what),
            ("where", self.where),
            ("do this", self.do_this),
        ):
            heading = click.style(f"{label + ':':<9}", bold=True)
            click.echo(heading + text.replace("\n", "\n" + " " * 9), err=file is None, file=file)


class Unanswered(Failure):
    """A call that nobody answered, or that may succeed later."""

    exit_code = UNAVAILABLE


def api_failure(error: PerdureApiError, address: str) -> Failure:
    """Return what a person is told of a call that failed."""
    if error.reason == NOT_REACHED:
        what = "no Perdure answers"
    else:
        listed = [f"{each.field}: {each.description}" for each in error.fields]
        what = "\n".join([f"{_without_first(error.message, listed)} ({error.reason})", *listed])
    kind = Unanswered if _may_pass(error) else Failure
    do_this = _DO_THIS.get(error.reason, _do_by_kind(error))
    return kind(what, where=_place(error, address), do_this=do_this)


def _without_first(message: str, listed: Sequence[str]) -> str:
    """Leave out the first problem where it is told once more in the list below."""
    return message.removesuffix(f": {listed[0]}") if listed else message


def _place(error: PerdureApiError, address: str) -> str:
    run_id = error.metadata.get("run_id")
    return f"run {run_id}, at {address}" if run_id else address


def _may_pass(error: PerdureApiError) -> bool:
    return isinstance(error, PerdureUnavailable) or error.code == "DEADLINE_EXCEEDED"


def _do_by_kind(error: PerdureApiError) -> str:
    return "wait a moment and try again" if _may_pass(error) else _SEE
