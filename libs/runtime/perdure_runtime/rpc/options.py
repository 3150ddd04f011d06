"""Channel and server options, chosen once so that both ends agree."""

from __future__ import annotations

import json

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_METADATA_BYTES = 16 * 1024

CONNECTION_AGE_MS = 5 * 60 * 1000
"""Connections are closed at this age, so that clients see new replicas (gRPC adds 10 % jitter)."""

CONNECTION_GRACE_MS = 70 * 1000
"""After its age a connection lives on for its calls; longer than the longest unary poll of 55 s."""

CLIENT_PING_MS = 30 * 1000
SERVER_PING_MS = 60 * 1000
PING_TIMEOUT_MS = 10 * 1000
LEAST_CLIENT_PING_MS = 10 * 1000

Options = tuple[tuple[str, str | int], ...]

_SIZES: Options = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
)

SERVER_OPTIONS: Options = (
    *_SIZES,
    # A second process on the same port must be an error, not a rival for connections.
    ("grpc.so_reuseport", 0),
    ("grpc.max_connection_age_ms", CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", CONNECTION_GRACE_MS),
    ("grpc.keepalive_time_ms", SERVER_PING_MS),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_CLIENT_PING_MS),
)


def client_options(health_service: str | None = None) -> Options:
    """Options of a channel; with `health_service`, replicas that say they drain get no calls.

    Retries are made by `RpcClient`, which knows the deadline and passes a fail point each time.
    """
    config: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if health_service is not None:
        config["healthCheckConfig"] = {"serviceName": health_service}
    return (
        *_SIZES,
        ("grpc.service_config", json.dumps(config)),
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", CLIENT_PING_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Without these a client that lost its server looks again only after up to two minutes.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 2000),
    )
