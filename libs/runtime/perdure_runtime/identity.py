"""The name of this process among all that ever ran: for elections, leases and people."""

from __future__ import annotations

import os
import socket
import uuid


def process_name() -> str:
    """Return host, process id and a random part, so that no other process ever has the name.

    At most 160 characters.
    """
    return f"{socket.gethostname()[:128]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
