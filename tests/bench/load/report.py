"""A stretch of load as text: what one step costs each process, the log, each table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.bench.load.counters import Counted
from tests.bench.load.measuring import Stretch
from tests.bench.load.processes import of_postgres

LEAST_US = 1.0
"""Microseconds a step below which a process is not printed."""

COLUMNS = ("inserted", "updated", "in_place", "deleted", "heap", "indexes", "dead", "vacuums")
"""Of a table: rows and bytes by the step; dead rows more than before, and vacuums, in all."""

MOST_STATEMENTS = 12
LEAST_SHARE = 0.005
"""Of the time of all statements below which one is not printed."""

MOST_WAITS = 4
LONGEST = 90
"""Characters of a statement."""


def report(stretch: Stretch) -> str:
    """Return all that was measured, by the step."""
    lines = [
        f"{stretch.name}: {stretch.steps:,} steps in {stretch.seconds:.1f} s, "
        f"{stretch.steps / stretch.seconds:,.0f} a second",
        *_section("microseconds of a core a step", _cpu(stretch)),
        *_section("log a step", _log(stretch)),
        *_section("rows and bytes a step", _tables(stretch)),
        *_section("backends at work at a time, and what they waited for", _waits(stretch)),
        *_section("statements", _statements(stretch)),
    ]
    return "\n".join(lines)


def brief(stretch: Stretch) -> str:
    """Return a stretch in one line: rate, cost, log, syncs, and what was waited for most."""
    cost, log = of_postgres(stretch.cpu), stretch.counters.log
    numbers = (
        f"{stretch.steps / stretch.seconds:8,.0f} steps/s",
        f"PostgreSQL {1e6 * cost / stretch.steps:4.0f} us a step",
        f"{cost / stretch.seconds:4.2f} cores",
        f"client {stretch.cpu['client'] / stretch.seconds:4.2f}",
        f"log {log['bytes'] / stretch.steps:5.0f} bytes a step",
        f"{log['syncs'] / stretch.seconds:4.0f} syncs/s of {_sync(log):5.2f} ms",
    )
    waits = list(stretch.waits.average().items())[:MOST_WAITS]
    waited = ", ".join(f"{what} {number:.2f}" for (_, what), number in waits)
    return f"{stretch.name:36} {', '.join(numbers)}; {waited}"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f" {title}"
    yield from (f"  {line}" for line in lines)


def _cpu(stretch: Stretch) -> Iterator[str]:
    costs = {name: 1e6 * value / stretch.steps for name, value in stretch.cpu.items()}
    for name, cost in sorted(costs.items()):
        if cost >= LEAST_US:
            yield f"{name:24} {cost:8.0f}"
    yield f"{'PostgreSQL':24} {of_postgres(costs):8.0f}"
    yield f"{'all':24} {sum(costs.values()):8.0f}"


def _log(stretch: Stretch) -> Iterator[str]:
    log = stretch.counters.log
    yield f"bytes {log['bytes'] / stretch.steps:.0f}, of which full pages {log['full_pages']:.0f}"
    yield f"commits {log['commits'] / stretch.steps:.3f}, syncs {log['syncs'] / stretch.steps:.3f}"
    share = log["sync_ms"] / 1000 / stretch.seconds
    yield f"a sync {_sync(log):.2f} ms, syncing {share:.0%} of the time"


def _sync(log: Counted) -> float:
    return log["sync_ms"] / max(1.0, log["syncs"])


def _tables(stretch: Stretch) -> Iterator[str]:
    tables = stretch.counters.tables
    yield f"{'':20}" + "".join(f"{title:>9}" for title in COLUMNS)
    for name, row in sorted(tables.items(), key=_written, reverse=True):
        if _written((name, row)):
            yield _table(name, row, stretch.steps)
    total = {key: sum(row[key] for row in tables.values()) for key in next(iter(tables.values()))}
    yield _table("all", total, stretch.steps)


def _table(name: str, row: Counted, steps: int) -> str:
    a_step = [f"{row[key] / steps:9.2f}" for key in COLUMNS[:4]]
    a_step += [f"{row[key] / steps:9.0f}" for key in COLUMNS[4:6]]
    return f"{name:20}" + "".join((*a_step, *(f"{row[key]:9.0f}" for key in COLUMNS[6:])))


def _written(table: tuple[str, Counted]) -> float:
    return table[1]["inserted"] + table[1]["updated"] + table[1]["deleted"]


def _waits(stretch: Stretch) -> Iterator[str]:
    for (who, what), number in stretch.waits.average().items():
        yield f"{number:6.2f} {who:12} {what}"


def _statements(stretch: Stretch) -> Iterator[str]:
    statements = stretch.counters.statements
    whole = sum(row["ms"] for row in statements.values())
    longest = sorted(statements.items(), key=lambda one: one[1]["ms"], reverse=True)
    for text, row in longest[:MOST_STATEMENTS]:
        if row["ms"] >= LEAST_SHARE * whole:
            yield _statement(text, row, whole, stretch.steps)


def _statement(text: str, row: Mapping[str, float], whole: float, steps: int) -> str:
    share, calls = row["ms"] / max(whole, 1e-9), row["calls"] / steps
    words = " ".join(text.split())[:LONGEST]
    return f"{share:5.0%} {1000 * row['ms'] / steps:6.1f} us, {calls:.4f} calls: {words}"
