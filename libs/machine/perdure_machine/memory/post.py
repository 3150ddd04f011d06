"""The signals, correlation keys and open waits of the engine in memory, all orgs together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from perdure_machine.changes import Changes, MailChanges
from perdure_machine.decide.signals import refuse_full
from perdure_machine.mailbox import Mailbox, SignalState, WaitState
from perdure_machine.memory.rows import GuardFailed
from perdure_machine.view import RunState

OrgKey = tuple[str, str]


@dataclass(slots=True)
class LetterRow:
    """A signal that was sent; `run_id` is the run whose it is, None while its key is nobody's."""

    org: str
    signal: SignalState
    run_id: UUID | None
    taken_by: int | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Signals of this name were stored for the run, and it has an open wait that they fit."""

    org: str
    run_id: UUID
    name: str


@dataclass(slots=True)
class Post:
    """What runs are sent, and what they wait for; `retention` as for start keys, in seconds."""

    retention: float
    letters: list[LetterRow] = field(default_factory=list)
    owners: dict[OrgKey, UUID] = field(default_factory=dict)
    waits: defaultdict[UUID, dict[int, WaitState]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def mailbox(self, run: RunState) -> Mailbox:
        """Return all that a decision on the run may ask for."""
        mine = [row for row in self.letters if row.run_id == run.run_id]
        open_ = [row.signal for row in mine if row.taken_by is None]
        unowned = [row.signal for row in self.letters if row.org == run.org and row.run_id is None]
        waits = defaultdict(list)
        for wait in self.waits.get(run.run_id, {}).values():
            waits[wait.name].append(wait)
        inbox = defaultdict(list)
        for signal in (*open_, *unowned):
            inbox[signal.name].append(signal)
        return Mailbox(
            inbox={name: tuple(found) for name, found in inbox.items()},
            waits={name: tuple(found) for name, found in waits.items()},
            owners={key: owner for (org, key), owner in self.owners.items() if org == run.org},
            known=frozenset(row.signal.signal_id for row in mine if row.signal.key is None),
            weight=sum(signal.weight for signal in open_),
            whole=True,
            secret=_secret(run.run_id),
            secret_kept=True,
        )

    def keep(self, org: str, signal: SignalState) -> tuple[bool, UUID | None]:
        """Store a signal that is sent by key; tell whether it is new and whose it is."""
        assert signal.key is not None
        for row in self.letters:
            if row.org == org and row.signal.address == signal.address:
                return False, row.run_id
        owner = self.owners.get((org, signal.key))
        waiting = [
            row.signal.weight
            for row in self.letters
            if (row.org, row.signal.key, row.taken_by) == (org, signal.key, None)
        ]
        refuse_full(sum(waiting) + signal.weight)
        self.letters.append(LetterRow(org, signal, owner))
        return True, owner

    def undelivered(self) -> list[Undelivered]:
        """Return what a sweep delivers: stored, not seen by its run, and awaited there."""
        found = {
            Undelivered(row.org, row.run_id, row.signal.name): None
            for row in self.letters
            if row.run_id is not None and row.taken_by is None and not row.signal.seen
            if any(wait.takes(row.signal) for wait in self.waits.get(row.run_id, {}).values())
        }
        return list(found)

    def drop_expired(self, now: float) -> None:
        """Forget signals whose run ended longer ago than the retention."""
        self.letters = [
            row for row in self.letters if row.expires_at is None or row.expires_at > now
        ]

    def write(self, changes: Changes, now: float) -> None:
        """Write what changes in a run's mail."""
        run = changes.run.run
        self._write(run, changes.mail)
        if changes.run.ended:
            self._end(run, now)

    def check(self, changes: Changes) -> None:
        """Raise `GuardFailed` for a signal that somebody else took, or a key of another run."""
        run = changes.run.run
        fresh = {signal.address for signal in changes.mail.stored}
        for taken in changes.mail.taken:
            row = self._letter(run, taken.address)
            if taken.address not in fresh and (row is None or row.taken_by is not None):
                raise GuardFailed(f"the signal {taken.address[1]}")

    def _write(self, run: RunState, mail: MailChanges) -> None:
        waits = self.waits[run.run_id]
        for step in mail.closed:
            waits.pop(step, None)
        for wait in mail.opened:
            waits[wait.step] = wait
            if wait.key is not None:
                self._claim(run, wait.key)
        self.letters += [LetterRow(run.org, signal, run.run_id) for signal in mail.stored]
        for taken in mail.taken:
            row = self._letter(run, taken.address)
            assert row is not None
            if taken.address[0] is not None:
                self._claim(run, taken.address[0])
            row.taken_by = taken.step
        for address in mail.noted:
            row = self._letter(run, address)
            assert row is not None
            row.signal = _seen(row.signal)

    def _claim(self, run: RunState, key: str) -> None:
        self.owners[run.org, key] = run.run_id
        for row in self.letters:
            if row.run_id is None and (row.org, row.signal.key) == (run.org, key):
                row.run_id, row.signal = run.run_id, _seen(row.signal)

    def _end(self, run: RunState, now: float) -> None:
        self.waits.pop(run.run_id, None)
        self.owners = {k: owner for k, owner in self.owners.items() if owner != run.run_id}
        for row in self.letters:
            if row.run_id == run.run_id:
                row.expires_at = now + self.retention

    def _letter(self, run: RunState, address: tuple[str | None, str]) -> LetterRow | None:
        for row in self.letters:
            mine = row.run_id in (run.run_id, None) and row.org == run.org
            if mine and row.signal.address == address:
                return row
        return None


def _secret(run_id: UUID) -> bytes:
    """Return the run's secret: nobody attacks a test, and the same run has the same tokens."""
    return sha256(run_id.bytes).digest()


def _seen(signal: SignalState) -> SignalState:
    return SignalState(signal.signal_id, signal.name, signal.data, signal.key)
