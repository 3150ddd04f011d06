"""The kinds of nodes that call outside, and how their calls may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from perdure_machine.expressions import Expression, Template

MAX_EFFECT_NAME = 200
"""Characters of the name of an effect, the last part of its key."""


class EffectKind(StrEnum):
    """How an outside call may be repeated (design section 8)."""

    PROVIDER = "provider"
    """The provider honours the effect key: repeat under it."""
    RECONCILE = "reconcile"
    """Look the effect up before repeating it."""
    NONE = "none"
    """Nothing is known; when the outcome is unknown a person decides."""
    REPEATABLE = "repeatable"
    """The call changes nothing outside, as GET and HEAD: repeat at will."""


@dataclass(frozen=True, slots=True)
class HttpLookup:
    """A request that finds out whether a call was performed, and the reading of its answer.

    `found` and `output` read the root `answer`; without `found` any good answer says so, without
    `output` the answer itself is what the call came to.
    """

    method: str
    url: Template
    headers: Mapping[str, Template]
    query: Mapping[str, Template]
    body: Template | None
    found: Expression | None
    output: Template | None


@dataclass(frozen=True, slots=True)
class GrpcLookup:
    """A method, at the target of the call itself, that finds out whether that was performed.

    Its answer is read as that of a `HttpLookup`.
    """

    service: str
    method: str
    request: Template | None
    metadata: Mapping[str, Template]
    found: Expression | None
    output: Template | None


Lookup: TypeAlias = HttpLookup | GrpcLookup


@dataclass(frozen=True, slots=True)
class Http:
    """One outside call. `success` holds the accepted statuses, empty is any 2xx.

    `effect_keep` is how many seconds the provider remembers the effect key, `timeouts` are the
    seconds by name, `redirects` how many are followed; None or missing is unstated.
    """

    name: ClassVar[str] = "http"
    inline: ClassVar[bool] = False
    method: str
    url: Template
    headers: Mapping[str, Template]
    query: Mapping[str, Template]
    body: Template | None
    effect: EffectKind
    effect_keep: float | None
    success: frozenset[int]
    timeouts: Mapping[str, float]
    redirects: int | None
    lookup: HttpLookup | None = None


@dataclass(frozen=True, slots=True)
class Grpc:
    """One unary call of a gRPC method at `target`, host and port, over TLS unless `plaintext`.

    `effect_keep` is as of `Http`.
    """

    name: ClassVar[str] = "grpc"
    inline: ClassVar[bool] = False
    target: Template
    service: str
    method: str
    request: Template | None
    metadata: Mapping[str, Template]
    plaintext: bool
    effect: EffectKind
    effect_keep: float | None
    lookup: GrpcLookup | None = None


CALLS = (Http, Grpc)
"""The kinds of nodes that call outside."""

Call: TypeAlias = Http | Grpc
