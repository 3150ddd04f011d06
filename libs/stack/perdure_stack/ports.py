"""Loopback TCP ports: which are free, and one that is."""

import itertools
import random
import socket

LOOPBACK = "127.0.0.1"

# Below what systems hand out by themselves: a port that is chosen here and not bound at once is not
# taken by somebody who asks the system for any port.
CHOSEN_FROM = range(15_000, 32_000)
TRIES = 1000

# Each port once before any again: who was refused at one, such as a gRPC channel to a server that
# ended, keeps from it for a while, whoever listens there next.
_candidates = itertools.cycle(random.sample(CHOSEN_FROM, len(CHOSEN_FROM)))


def _bind(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this too: without it the remains of closed connections look like a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on ``port`` of the loopback address now."""
    try:
        _bind(port)
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a loopback port that nobody listens on now.

    It is not reserved: whoever starts a server on it must cope with losing a race for it. Raises
    OSError when none is found.
    """
    for port in itertools.islice(_candidates, TRIES):
        if port_is_free(port):
            return port
    raise OSError(f"none of {TRIES} ports tried below {CHOSEN_FROM.stop} is free")


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free loopback ports."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[free_port()] = None
    return list(found)
