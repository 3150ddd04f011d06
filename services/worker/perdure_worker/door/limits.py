"""What requests of the door may hold, as the contract says."""

from __future__ import annotations

PROTOCOL_VERSION = 1

MAX_WORKER_ID = 200
MAX_LANES = 8
MAX_LANE_NAME = 200
DEFAULT_LANE = "io"

MAX_TASKS = 100
MAX_WAIT_SECONDS = 55.0

MAX_TOKEN = 4000
"""Characters of a token; those that are made here are much shorter."""

MAX_HEARTBEATS = 1000
MAX_RELEASES = 256

MAX_EFFECT_NAME = 200
MAX_EFFECT_KEY = 4000
MAX_DIGEST_BYTES = 64
MAX_CALL_SECONDS = 86400.0
MAX_KEEP_SECONDS = 3660 * 86400.0
EFFECT_KINDS = ("provider", "reconcile", "none")

MAX_PAYLOAD_DEPTH = 100
MAX_RETRY_AFTER_SECONDS = 366 * 86400.0
