"""The entries of the crash matrix: every declared fail point, each side, each owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from perdure_runtime.fail_points import ENVIRONMENT_VARIABLE, Side
from perdure_stack.services import SERVICES

from tools.findings import ROOT, project_files, read_sources
from tools.lint_fail_points import is_runtime_code, read_declarations

MIGRATION = "migration"
"""Owner of what the migration runner passes; it is no service."""

EPOCH = "epoch"
"""Owner of what the command of operators passes that tells of a restore."""

REDIS_6 = "a worker on Redis 6"
"""Owner of what is passed only where XAUTOCLAIM leaves the acknowledging of trimmed entries to its
caller (F083); from Redis 7 on, so on every server that the tests have, it does that itself."""

ELECTED = ("relay", "timer", "sweeper")

# A library's point belongs to the services that use it; a service's own is named after it.
LIBRARY_OWNERS = {
    "store.commit_events": ("coordinator",),
    "store.write_hand_overs": ("coordinator",),
    "store.commit_starts": ("coordinator",),
    "store.commit_forgoing": ("coordinator",),
    "store.commit_signals": ("coordinator",),
    "store.commit_causes": ("coordinator",),
    "store.commit_connections": ("coordinator",),
    "store.commit_drop_signals": ("sweeper",),
    "store.commit_drop_free_keys": ("sweeper",),
    "store.commit_publish": ("coordinator",),
    "store.commit_lane": ("coordinator",),
    "store.commit_replays": ("coordinator",),
    "store.commit_migration": ("coordinator",),
    "store.commit_suppression": ("coordinator",),
    "store.commit_budget": ("coordinator",),
    "store.commit_key": ("coordinator",),
    "store.commit_member": ("coordinator",),
    "store.commit_erasure": ("coordinator",),
    "store.commit_erasure_cursor": ("coordinator",),
    "store.commit_migration_cursor": ("coordinator",),
    "store.commit_renewals": ("coordinator",),
    "store.commit_put_off": ("coordinator",),
    "store.commit_drop_orphans": ("coordinator",),
    "store.commit_months": ("sweeper",),
    "store.commit_drop_keys": ("sweeper",),
    "store.commit_epoch": (EPOCH,),
    "store.acquire_leadership": ELECTED,
    "store.release_leadership": ELECTED,
    "store.outbox_mark_sent": ("relay",),
    "store.outbox_ready_again": ("relay",),
    "store.create_schema_migrations": (MIGRATION,),
    "store.apply_migration": (MIGRATION,),
    "store.apply_migration_statement": (MIGRATION,),
    "streams.xadd": ("relay",),
    "streams.remember": ("relay",),
    "streams.drop_orphans": ("relay",),
    "streams.xreadgroup": ("worker",),
    "streams.settle": ("worker",),
    "streams.xautoclaim": ("worker",),
    "streams.ack_vanished": (REDIS_6,),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One side of a fail point, in one process that passes it."""

    owner: str
    point: str
    side: Side

    def __str__(self) -> str:
        """The name of its test and of the file whose making arms it."""
        return f"{self.owner}-{self.point}.{self.side}"

    def armed(self, tokens: Path) -> str:
        """Return what the owner's environment says: die here once the token is there."""
        return f"{self.point}.{self.side}=kill:{tokens / str(self)}"


@cache
def declared_points() -> tuple[str, ...]:
    """Return the names of all fail points in the code."""
    declarations, findings = read_declarations(read_sources(filter(_may_declare, project_files())))
    assert not findings, [str(finding) for finding in findings]
    return tuple(sorted(declaration.name for declaration in declarations))


def _may_declare(path: str) -> bool:
    return (
        path.endswith(".py") and is_runtime_code(path) and b"declare(" in (ROOT / path).read_bytes()
    )


def owners_of(point: str) -> tuple[str, ...]:
    """Return who passes a point; nobody if a library's point has no owner here yet."""
    service = point.partition(".")[0]
    return (service,) if service in SERVICES else LIBRARY_OWNERS.get(point, ())


def entries() -> list[Entry]:
    """Return the whole matrix."""
    return list(_entries())


def _entries() -> Iterator[Entry]:
    for point in declared_points():
        for owner in owners_of(point):
            for side in Side:
                yield Entry(owner, point, side)


def armed_everywhere(tokens: Path) -> dict[str, dict[str, str]]:
    """Return the environment that makes every service die wherever a token is put."""
    armed: defaultdict[str, list[str]] = defaultdict(list)
    for entry in entries():
        if entry.owner in SERVICES:
            armed[entry.owner].append(entry.armed(tokens))
    return {owner: {ENVIRONMENT_VARIABLE: ";".join(lines)} for owner, lines in armed.items()}
