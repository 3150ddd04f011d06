"""What commands print: JSON as bytes, tables, durations, instants, status words in colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import click
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from perdure_contracts.v1 import run_pb2

from perdure.jsontext import status_word, to_json

_COLOURS = {
    "completed": "green",
    "settled": "green",
    "running": "cyan",
    "failed": "red",
    "timed_out": "red",
    "needs_review": "red",
    "cancelled": "yellow",
    "backing_off": "yellow",
    "outcome_unknown": "yellow",
    "parked": "yellow",
    "paused": "yellow",
    "scheduled": "cyan",
    "queued": "cyan",
    "compensating": "yellow",
}
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def print_json(message: Message) -> None:
    """Print a message as one JSON document."""
    click.echo(to_json(message))


def print_json_list(messages: Iterable[Message]) -> None:
    """Print messages as one JSON list."""
    click.echo(b"[" + b",\n ".join(map(to_json, messages)) + b"]")


def print_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns; colour codes do not count as width."""
    for line in table_lines(heading, rows):
        click.echo(line)


def table_lines(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows in columns below a heading."""
    cells = [[click.style(each, dim=True) for each in heading], *map(list, rows)]
    widths = [
        max(len(click.unstyle(each)) for each in column) for column in zip(*cells, strict=True)
    ]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in cells]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - len(click.unstyle(text)))


def word(message: Message, field: str = "status") -> str:
    """Return the plain word of a message's status."""
    return status_word(message.DESCRIPTOR.fields_by_name[field], getattr(message, field)) or "?"


def shown_status(run: run_pb2.Run) -> str:
    """Return the word that people see for where a run stands: its status, or what holds it up."""
    if run.paused:
        return "paused"
    return "compensating" if run.ending else word(run)


def coloured(status: str) -> str:
    """Return a status word in its colour, and without underscores."""
    return click.style(status.replace("_", " "), fg=_COLOURS.get(status))


def one_line(text: str, width: int = 100) -> str:
    """Return a text on one line, cut to a width."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def moment(message: Timestamp) -> datetime:
    """Return a message's instant."""
    return message.ToDatetime(UTC)


def clock_time(instant: datetime) -> str:
    """Return an instant as people compare it with their logs: UTC, to the second."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"


def duration(length: timedelta) -> str:
    """Return a duration: milliseconds below a second, tenths below a minute, else two units."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    parts: list[str] = []
    rest = int(seconds)
    for unit, name in _UNITS:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])
