"""Structured log lines: JSON for machines, one readable line each for a terminal.

Every line has an action, such as `loop.failed`, and fields; what a line is about (org, run, step,
fence) is bound once with `bound` and repeated on each line within. Texts are cleaned, never
refused.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from perdure_runtime.errors import PerdureError, clean_text

CONTEXT_FIELDS = ("service", "org", "run", "step", "fence", "trace_id")
"""Fields in the order in which a console line shows them."""

_FIELDS = "perdure_fields"
_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}

_bound: ContextVar[Mapping[str, object]] = ContextVar("perdure_log_fields", default={})  # noqa: B039


def log(
    logger: logging.Logger,
    action: str,
    *,
    level: int = logging.INFO,
    exc_info: BaseException | None = None,
    **fields: object,
) -> None:
    """Write one line. `action` is `component.what`; fields are few, flat and of stable names."""
    emit(logger, action, fields, level=level, exc_info=exc_info)


def emit(
    logger: logging.Logger,
    action: str,
    fields: Mapping[str, object],
    *,
    level: int = logging.INFO,
    exc_info: BaseException | None = None,
) -> None:
    """Write one line, as `log` does, with fields that are in a mapping already."""
    if logger.isEnabledFor(level):
        logger.log(level, action, exc_info=exc_info, extra={_FIELDS: fields})


def log_failure(logger: logging.Logger, action: str, error: Exception, **fields: object) -> None:
    """Write an error once: a known one as a line, an unknown one with its stack."""
    if isinstance(error, PerdureError):
        known = {"reason": error.reason, "error": error.message, **fields}
        emit(logger, action, known, level=logging.WARNING)
    else:
        emit(logger, action, fields, level=logging.ERROR, exc_info=error)


class bound:
    """Add fields to every line that is written within, also by tasks begun within."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _bound.set({**_bound.get(), **self._fields})

    def __exit__(self, *_: object) -> None:
        _bound.reset(self._token)


FieldSource = Callable[[], Mapping[str, object]]


def configure(
    service: str,
    *,
    form: str = "auto",
    level: str = "info",
    stream: TextIO | None = None,
    source: FieldSource = dict,
) -> logging.Handler:
    """Send all logging of this process to `stream`, by default stderr; return the handler.

    `source` adds fields at the moment of each line, such as the current trace id.
    """
    out = stream or sys.stderr
    as_console = form == "console" or (form == "auto" and out.isatty())
    collect = _Collector(service, source)
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        ConsoleFormatter(collect, colour=out.isatty()) if as_console else JsonFormatter(collect)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    return handler


class _Collector:
    """Gathers the fields of a record; the line's own win over the bound ones."""

    def __init__(self, service: str, source: FieldSource) -> None:
        self._service = service
        self._source = source

    def __call__(self, record: logging.LogRecord) -> dict[str, object]:
        own: Mapping[str, object] = getattr(record, _FIELDS, {})
        return {"service": self._service, **self._source(), **_bound.get(), **own}


class JsonFormatter(logging.Formatter):
    """One JSON object per line; times are UTC with milliseconds."""

    def __init__(self, collect: _Collector) -> None:
        super().__init__()
        self._collect = collect

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        base: dict[str, object] = {
            "time": _instant(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "action": clean_text(record.getMessage()),
            "logger": record.name,
        }
        fields = {name: _plain(value) for name, value in self._collect(record).items()}
        # The order is the reader's, time first; a field cannot take the place of what is fixed.
        line = base | fields | base
        if record.exc_info and record.exc_info[0]:
            line["error_type"] = record.exc_info[0].__qualname__
            line["stack"] = clean_text(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


class ConsoleFormatter(logging.Formatter):
    """`time level service action field=value ...`, then the stack if there is one."""

    def __init__(self, collect: _Collector, *, colour: bool) -> None:
        super().__init__()
        self._collect = collect
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line for people."""
        fields = self._collect(record)
        service = str(fields.pop("service"))
        shown = " ".join(f"{name}={_shown(fields[name])}" for name in _ordered(fields))
        time = f"{_instant(record).astimezone():%H:%M:%S}.{int(record.msecs):03d}"
        level = self._paint(f"{record.levelname:<7}", _COLOURS.get(record.levelname, ""))
        head = f"{self._paint(time, _DIM)} {level} {service:<11} {clean_text(record.getMessage())}"
        line = f"{head} {self._paint(shown, _DIM)}" if shown else head
        if record.exc_info and record.exc_info[0]:
            line += "\n" + clean_text(self.formatException(record.exc_info))
        return line

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colour and colour else text


def _instant(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _ordered(fields: Mapping[str, object]) -> list[str]:
    first = [name for name in CONTEXT_FIELDS if name in fields]
    return first + [name for name in fields if name not in first]


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return clean_text(str(value))


def _shown(value: object) -> str:
    text = str(_plain(value))
    return (
        json.dumps(text, ensure_ascii=False)
        if not text or set(text) & set(' "=\n\r\t\x1b')
        else text
    )
