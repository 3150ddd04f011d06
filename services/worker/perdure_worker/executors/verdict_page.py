"""The tables of `docs/architecture/calls.md`, made of the verdicts themselves.

`python -m perdure_worker.executors.verdict_page` writes them between the page's marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import grpc

from perdure_worker.executors.verdicts import BREAKS, Verdict, of_grpc, of_status
from perdure_worker.outcome import Effect

BEGIN, END = "<!-- verdicts -->", "<!-- /verdicts -->"
PAGE = Path("docs/architecture/calls.md")

_WORDS = {
    Effect.PERFORMED: "performed",
    Effect.NOT_PERFORMED: "not performed",
    Effect.UNKNOWN: "unknown",
}


def tables() -> str:
    """Return what stands between the marks."""
    breaks = ((str(broke), verdict) for broke, verdict in BREAKS.items())
    codes = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
    statuses = ((_span(span), of_status(span[0])) for span in _spans(range(200, 600)))
    by_code = ((f"`{code.name}`", of_grpc(code)) for code in codes)
    parts = (
        _table("without an answer", breaks),
        _table("an HTTP status that is not accepted", statuses),
        _table("a gRPC status", by_code),
    )
    return "\n\n".join(parts)


def with_tables(page: str) -> str:
    """Return the page with its tables as they are now. Raises ValueError without the marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main() -> int:
    """Write the tables into the page."""
    PAGE.write_text(with_tables(PAGE.read_text()))
    return 0


def _table(head: str, rows: Iterable[tuple[str, Verdict]]) -> str:
    lines = [f"| {head} | effect | class | code |", "|---|---|---|---|"]
    for what, verdict in rows:
        code = "`HTTP_<status>`" if verdict.code.startswith("HTTP_") else f"`{verdict.code}`"
        lines.append(f"| {what} | {_WORDS[verdict.effect]} | `{verdict.error_class}` | {code} |")
    return "\n".join(lines)


def _spans(statuses: Sequence[int]) -> Iterable[list[int]]:
    """Yield neighbours that are judged alike."""
    span: list[int] = []
    for status in statuses:
        if span and _judged(span[0]) != _judged(status):
            yield span
            span = []
        span.append(status)
    yield span


def _judged(status: int) -> tuple[object, object]:
    verdict = of_status(status)
    return verdict.effect, verdict.error_class


def _span(span: Sequence[int]) -> str:
    return str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}"


if __name__ == "__main__":
    sys.exit(main())
