"""The chassis of every service: config, lifecycle, rpc, telemetry, errors, clock, fail points."""

import os

# gRPC reads this when it is imported, so nothing of it may be before. With its older poller the
# thread that waits for a message reads it, where otherwise up to three threads hand it on
# (docs/decisions/0042). What an operator has set stands.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
