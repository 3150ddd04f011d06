"""Chassis of every service: config, lifecycle, rpc, telemetry, errors, clock, backoff, fail points."""
