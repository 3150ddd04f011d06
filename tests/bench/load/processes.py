"""Which processes a stack consists of, and how much of a core each has used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

SERVICES = ("ingest", "coordinator", "relay", "worker", "timer", "sweeper")
POSTGRES = "pg:"
"""How the names of PostgreSQL's processes begin."""

ENDED = f"{POSTGRES}ended"
"""Processes of PostgreSQL that are over: its autovacuum's workers, above all."""


def used(directory: Path) -> Mapping[str, float]:
    """Return the seconds of a core that each kind of process of the stack has used so far.

    The stack is what this process started, and what the PostgreSQL below `directory` started.
    """
    found: dict[str, float] = {}
    for process in _processes(directory):
        try:
            line, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        name = "client" if process.pid == psutil.Process().pid else name_of(line)
        found[name] = found.get(name, 0.0) + times.user + times.system
        if name == f"{POSTGRES}main":
            found[ENDED] = times.children_user + times.children_system
    return found


def name_of(command: str) -> str:
    """Name a process by its command line; a backend of PostgreSQL by the role that it serves."""
    if command.startswith("postgres: "):
        return POSTGRES + _backend(command.removeprefix("postgres: "))
    if "valkey" in command:
        return "valkey"
    if "config_file=" in command:
        return f"{POSTGRES}main"
    return next((name for name in SERVICES if f"perdure_{name}" in command), "other")


def of_postgres(seconds: Mapping[str, float]) -> float:
    """Return what all of PostgreSQL's processes used."""
    return sum(value for name, value in seconds.items() if name.startswith(POSTGRES))


def _backend(title: str) -> str:
    role = next((name for name in SERVICES if f"perdure_{name}" in title), None)
    if role is not None:
        return role
    words = title.split()
    return "measuring" if words[0] == "postgres" else " ".join(words[:2]).rstrip("0123456789 ")


def _processes(directory: Path) -> Iterable[psutil.Process]:
    roots = {psutil.Process().pid}
    roots |= {int(file.read_text().split()[0]) for file in directory.rglob("postmaster.pid")}
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        root = psutil.Process(pid)
        found |= {one.pid: one for one in (root, *root.children(recursive=True))}
    return found.values()
