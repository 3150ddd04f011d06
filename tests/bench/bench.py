"""`make bench`: what the embedded stack does on this machine, with fsync on and 5 % tracing.

Prints each figure when it is known, then the table, and as the last line one JSON object with a
key for each measure, null where it was not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Mapping, Sequence

from tests.bench.families import Family, chosen
from tests.bench.figures import Figure, last_line, table
from tests.bench.rig import Rig, Size, open_rig

_SETTINGS = """
SELECT string_agg(name || ' ' || setting, ', ' ORDER BY name) FROM pg_settings
 WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'wal_sync_method')
"""


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 2 for a wrong argument."""
    options = _options(arguments)
    only = [name for name in options.only.split(",") if name]
    try:
        families = chosen(only, quick=options.quick)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    figures = asyncio.run(measure(families, Size(quick=options.quick, long=options.long)))
    print(f"\n{table(figures)}\n{last_line(figures)}")
    return 0


async def measure(families: Sequence[Family], size: Size) -> Mapping[str, Figure]:
    """Measure one family after another, those that may share a stack on one."""
    figures: dict[str, Figure] = {}
    if together := [family for family in families if not family.alone]:
        async with open_rig() as rig:
            await _describe(rig)
            for family in together:
                figures |= await _measured(rig, family, size)
    for family in families:
        if family.alone:
            async with open_rig(family.slots) as rig:
                figures |= await _measured(rig, family, size)
    return figures


async def _measured(rig: Rig, family: Family, size: Size) -> Mapping[str, Figure]:
    figures = await family.measure(rig, size)
    for key, figure in figures.items():
        print(f"  {key} {figure.value} {figure.note}", flush=True)
    return figures


async def _describe(rig: Rig) -> None:
    """Print what the figures are figures of."""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    print(f"{system}, Python {platform.python_version()}, load {os.getloadavg()[0]:.2f}")
    print(f"PostgreSQL: {await rig.database.fetchval(_SETTINGS)}", flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute; some are null")
    parser.add_argument("--long", action="store_true", help="memory after ten minutes of load")
    parser.add_argument("--only", default="", help="keys of measures, with commas between")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
