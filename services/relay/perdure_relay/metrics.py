"""What the relay tells Prometheus."""

from __future__ import annotations

from perdure_runtime.metrics import counter, gauge

PUBLISHED = counter("relay_published_total", "Entries added to streams.", ("lane",))
REDISPATCHED = counter(
    "relay_redispatched_total",
    "Sent rows that were made ready again, because Redis lost an entry or its memory.",
    ("lane", "cause"),
)
REFUSED = counter(
    "relay_refused_total", "Batches that Redis did not take, by its trouble.", ("lane", "trouble")
)
OLDEST_READY = gauge(
    "relay_oldest_ready_seconds", "Age of the oldest row that waits to be sent.", ("lane",)
)
OUTBOX_AGE = gauge("outbox_oldest_seconds", "Age of the oldest row of the outbox in any state.")
LEADING = gauge("relay_leading", "1 while this process leads the shard.", ("lane", "shard"))
