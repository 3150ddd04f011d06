"""Whom work is about: one form of each name, and the keyed hash that stands for it in tables."""

from __future__ import annotations

import hmac
import unicodedata
from dataclasses import dataclass, field

from perdure_runtime.errors import FailedPrecondition, FieldViolation, InvalidArgument, Reason

MAX_SUBJECT = 500
"""Longest subject, in characters."""

EVERY_PURPOSE = "*"
"""The purpose of a suppression that holds whatever work about its subject is for."""


def normal(subject: str) -> str:
    """Return the one form of a subject, whatever its case, its blanks and its Unicode form."""
    return unicodedata.normalize("NFKC", subject).strip().casefold()


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """The secret under which subjects are hashed; empty where the installation has none."""

    secret: bytes = field(default=b"", repr=False)

    def hash(self, org: str, subject: str) -> bytes:
        """Return the hash of a subject of an org, 32 bytes; other orgs have another for it.

        Raises `FailedPrecondition` without a secret, `InvalidArgument` for a subject without text.
        """
        if not self.secret:
            raise no_subject_key()
        text = normal(subject)
        if not text or len(subject) > MAX_SUBJECT:
            problem = f"has 1 to {MAX_SUBJECT} characters"
            raise InvalidArgument(
                f"a subject {problem}",
                reason=Reason.FIELD_INVALID,
                violations=[FieldViolation("subject", problem)],
            )
        return hmac.digest(self.secret, f"{org}\0{text}".encode(), "sha256")


def no_subject_key() -> FailedPrecondition:
    """Say that subjects cannot be hashed here."""
    return FailedPrecondition(
        "this installation has no key for subjects", reason=Reason.SUBJECT_KEY_MISSING
    )


NO_KEY = SubjectKey()
"""The key of an installation that was given none."""
