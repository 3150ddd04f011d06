"""Connections as messages; nothing of them is secret."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.v1 import connection_service_pb2 as pb
from perdure_store.connections import ConnectionState

from perdure_ingest.views.instants import timestamp

SCHEMES: Mapping[pb.ConnectionScheme.ValueType, str] = MappingProxyType(
    {
        pb.CONNECTION_SCHEME_UNSPECIFIED: "none",
        pb.CONNECTION_SCHEME_NONE: "none",
        pb.CONNECTION_SCHEME_BEARER: "bearer",
        pb.CONNECTION_SCHEME_BASIC: "basic",
        pb.CONNECTION_SCHEME_HEADER: "header",
        pb.CONNECTION_SCHEME_FIELDS: "fields",
    }
)
_SCHEME_OF = MappingProxyType({name: number for number, name in SCHEMES.items()})
_HEALTH = MappingProxyType(
    {
        "ok": pb.CONNECTION_HEALTH_OK,
        "open": pb.CONNECTION_HEALTH_OPEN,
        "half_open": pb.CONNECTION_HEALTH_HALF_OPEN,
        "reconnect": pb.CONNECTION_HEALTH_RECONNECT,
        "disabled": pb.CONNECTION_HEALTH_DISABLED,
    }
)


def connection_message(state: ConnectionState) -> pb.Connection:
    """Show a connection."""
    message = pb.Connection(
        name=state.name,
        base_url=state.base_url,
        scheme=_SCHEME_OF[state.scheme],
        has_credentials=state.has_credentials,
        slots=state.slots or 0,
        rate=state.rate or 0.0,
        burst=state.burst,
        max_failures=state.max_failures,
        open_for=_duration(state.open_ms / 1000),
        health=_HEALTH[state.health],
        failures=state.failures,
        in_use=state.in_use,
        blocked=state.blocked,
        parked=state.parked,
        generation=state.generation,
        probe_path=state.probe_path or "",
        created_at=timestamp(state.created_at),
        changed_at=timestamp(state.changed_at),
    )
    if state.opens_in > 0:
        message.opens_in.CopyFrom(_duration(state.opens_in))
    return message


def _duration(seconds: float) -> Duration:
    message = Duration()
    message.FromMilliseconds(int(seconds * 1000))
    return message
