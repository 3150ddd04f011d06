"""What commands are given: files, workflows, payloads, labels, statuses, instants."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from perdure_contracts.v1 import job_pb2, run_pb2

from perdure.cli.failures import Failure
from perdure.workflow import Workflow

STDIN = "-"
_PYTHON_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
_STATUS_PREFIX = "RUN_STATUS_"
_JOB_STATUS_PREFIX = "JOB_STATUS_"

STATUSES = tuple(
    name.removeprefix(_STATUS_PREFIX).lower()
    for name, number in run_pb2.RunStatus.items()
    if number != run_pb2.RUN_STATUS_UNSPECIFIED
)
"""The words for a run's status."""

JOB_STATUSES = tuple(
    name.removeprefix(_JOB_STATUS_PREFIX).lower()
    for name, number in job_pb2.JobStatus.items()
    if number != job_pb2.JOB_STATUS_UNSPECIFIED
)
"""The words for a job's status."""


def read_file(name: str) -> bytes:
    """Return the bytes of a file, or of stdin for `-`. Raises Failure if it cannot be read."""
    if name == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Failure(
            f"the file cannot be read: {error.strerror}",
            where=name,
            do_this="correct the path, or give - for stdin",
        ) from error


def read_document(name: str) -> bytes:
    """Return a definition: a file's bytes, stdin for `-`, or of the workflow `module:name`.

    Raises Failure if there is no such thing.
    """
    named = _PYTHON_NAME.fullmatch(name)
    return read_file(name) if named is None else _built(*named.groups()).to_yaml().encode()


def _built(module: str, name: str) -> Workflow:
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise Failure(
            str(error), where=module, do_this="run this where the module is, or set PYTHONPATH"
        ) from error
    finally:
        sys.path.remove("")
    if isinstance(found, Workflow):
        return found
    raise Failure(
        f"`{name}` is no workflow there", where=module, do_this="name a perdure.workflow.Workflow"
    )


def read_payload(given: str | None) -> bytes | None:
    """Return a payload's bytes: JSON itself, `@FILE`, or `-`; what it holds is sent as it is."""
    if given is None:
        return None
    if given == STDIN or given.startswith("@"):
        return read_file(given.removeprefix("@"))
    return given.encode()


def read_tags(given: Sequence[str]) -> dict[str, str]:
    """Return `key=value` labels. Raises a usage error for one without `=`."""
    tags: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is not of the form key=value", param_hint="--tag")
        tags[key] = value
    return tags


def read_status(given: str | None) -> run_pb2.RunStatus.ValueType:
    """Return the status of a word."""
    if given is None:
        return run_pb2.RUN_STATUS_UNSPECIFIED
    return run_pb2.RunStatus.Value(f"{_STATUS_PREFIX}{given.upper()}")


def read_job_status(given: str | None) -> job_pb2.JobStatus.ValueType:
    """Return the status of a word."""
    if given is None:
        return job_pb2.JOB_STATUS_UNSPECIFIED
    return job_pb2.JobStatus.Value(f"{_JOB_STATUS_PREFIX}{given.upper()}")


class Instant(click.ParamType[datetime]):
    """An ISO 8601 instant; without an offset it is UTC."""

    name = "instant"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the instant."""
        try:
            instant = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no instant such as 2026-05-31T12:00:00Z", param, ctx)
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
