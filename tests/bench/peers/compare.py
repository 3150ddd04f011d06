"""`make bench-peers`: the same chains and jobs on peers, on the same servers, in turns with ours.

First each peer's best setting is looked for, separately for chains and for jobs. Then rounds: ours,
peer after peer, and again; whoever's turn it is not does not run. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.peers.ours import Ours
from tests.bench.peers.peers import NOT_HAD, PEERS, Peer, Setting
from tests.bench.peers.process import PYTHON, PeerFailed
from tests.bench.peers.results import OURS, Round, last_line, table
from tests.bench.peers.turns import Servers, Turn, best_settings, take_turn
from tests.bench.rig import open_rig

ROUNDS = 5


def main(arguments: Sequence[str]) -> int:
    """Compare and print; 2 for a wrong argument or without the peers' environment."""
    options = _options(arguments)
    only = [name for name in options.only.split(",") if name]
    peers = [peer for peer in PEERS if not only or peer.name in only]
    if unknown := set(only) - {peer.name for peer in peers}:
        print(f"no peer is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if not PYTHON.exists():
        print(f"the peers are not installed below {PYTHON.parents[2]}", file=sys.stderr)
        return 2
    turn = Turn(seconds=2.0 if options.quick else 6.0)
    rounds = 1 if options.quick else options.rounds
    asyncio.run(_compare(peers, turn, rounds, sweep=not options.quick))
    return 0


async def _compare(peers: Sequence[Peer], turn: Turn, rounds: int, *, sweep: bool) -> None:
    missing = dict(NOT_HAD)
    with tempfile.TemporaryDirectory() as directory:
        async with open_rig() as rig:
            ours = Ours(rig, turn)
            await ours.prepare()
            servers = await Servers.of(rig, peers, Path(directory))
            chosen = await _choose(servers, peers, turn, missing, sweep=sweep)
            found: dict[str, list[Round]] = {OURS: []}
            for _ in range(rounds):
                found[OURS].append(await ours.take_turn())
                await _peers_turn(servers, chosen, turn, found, missing)
    print(f"\n{table(found)}\n")
    for name, why in missing.items():
        print(f"{name}: not had: {why}")
    print(last_line(found, missing))


async def _choose(
    servers: Servers,
    peers: Sequence[Peer],
    turn: Turn,
    missing: dict[str, str],
    *,
    sweep: bool,
) -> Mapping[Peer, Mapping[str, Setting]]:
    """Return how each peer is run for each kind of work; who cannot run is missing."""
    chosen = {}
    for peer in peers:
        print(f"{peer.name}: {peer.note}")
        try:
            chosen[peer] = await best_settings(servers, peer, turn, sweep=sweep)
        except PeerFailed as failure:
            missing[peer.name] = str(failure)
            print(f"  not had: {failure}")
        else:
            for work, setting in chosen[peer].items():
                print(f"  {work}: best with {setting}", flush=True)
    return chosen


async def _peers_turn(
    servers: Servers,
    chosen: Mapping[Peer, Mapping[str, Setting]],
    turn: Turn,
    found: dict[str, list[Round]],
    missing: dict[str, str],
) -> None:
    for peer, settings in chosen.items():
        if peer.name in missing:
            continue
        try:
            seen = await take_turn(servers, peer, settings, turn)
        except PeerFailed as failure:
            missing[peer.name] = str(failure)
            continue
        found.setdefault(peer.name, []).append(seen)
        print(f"  {peer.name} {dict(seen)}", flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, first settings, briefly")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each has its turn")
    parser.add_argument("--only", default="", help="names of peers, with commas between")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
