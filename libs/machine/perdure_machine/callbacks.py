"""Tokens of callbacks: each stands for one wait of one run, and nobody can guess it.

A token says which wait it is for, and proves by a MAC that this run made it. The key is a secret of
the run alone, so a token is worth nothing in another run, and a secret that leaks opens no other.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from uuid import UUID

import msgspec

from perdure_machine.places import At

SECRET_BYTES = 32
"""Length of a run's secret."""

MAX_TOKEN = 4_000
"""Longest token, in characters."""

_PREFIX = "cb1_"
_RUN_BYTES = 16
_PROOF_BYTES = 32
_CHANNEL = "callback:"

_places = msgspec.json.Decoder(tuple[str, int, str])


@dataclass(frozen=True, slots=True)
class Callback:
    """What a token says: a wait of a run, and the proof that the run made the token."""

    run_id: UUID
    at: At
    proof: bytes


def token_of(secret: bytes, org: str, run_id: UUID, at: At) -> str:
    """Return the token for the wait of the node `at`."""
    body = run_id.bytes + _proof(secret, org, run_id, at) + _place(at)
    return _written(body)


def read_token(token: str) -> Callback | None:
    """Return what a token says, which is not proved yet; None for a text that is no token."""
    if len(token) > MAX_TOKEN or not token.startswith(_PREFIX):
        return None
    text = token.removeprefix(_PREFIX)
    try:
        body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        at = At(*_places.decode(body[_RUN_BYTES + _PROOF_BYTES :]))
    except (ValueError, msgspec.DecodeError):
        return None
    if _written(body) != token:
        return None
    proof = body[_RUN_BYTES : _RUN_BYTES + _PROOF_BYTES]
    return Callback(UUID(bytes=body[:_RUN_BYTES]), at, proof)


def is_proved(callback: Callback, secret: bytes, org: str, run_id: UUID) -> bool:
    """Tell whether the run with this secret made the token; takes as long whatever the proof is."""
    return hmac.compare_digest(callback.proof, _proof(secret, org, run_id, callback.at))


def channel_of(at: At) -> str:
    """Return the name under which answers to a wait stand in its run's inbox.

    No signal that is sent otherwise has such a name.
    """
    return f"{_CHANNEL}{at.scope}#{at.generation}.{at.node}"


def is_channel(name: str) -> bool:
    """Tell whether a name in an inbox is that of a wait's answers."""
    return name.startswith(_CHANNEL)


def _written(body: bytes) -> str:
    return _PREFIX + urlsafe_b64encode(body).decode().rstrip("=")


def _proof(secret: bytes, org: str, run_id: UUID, at: At) -> bytes:
    said = json.dumps([org, str(run_id)]).encode() + _place(at)
    return hmac.digest(secret, said, "sha256")


def _place(at: At) -> bytes:
    return json.dumps(list(at), separators=(",", ":")).encode()
