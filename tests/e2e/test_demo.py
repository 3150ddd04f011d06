"""The demo as a newcomer runs it, judged by what its provider saw."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN_SECONDS = 110.0


@pytest.mark.timeout(120)
async def test_demo_sends_one_email_though_the_sending_worker_is_killed_r8(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "examples.demo_follow_up.demo",
        "--dir",
        str(tmp_path / "demo"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), WITHIN_SECONDS)
    text = output.decode()
    assert process.returncode == 0, text

    lines = (tmp_path / "demo" / "provider.jsonl").read_text(encoding="utf-8").splitlines()
    emails = [call for call in map(json.loads, lines) if "key" in call]
    first, second = emails
    assert first["key"] == second["key"]
    assert (first["sent"], second["sent"]) == (True, False)
    assert first["caller"] != second["caller"]

    open_at_kill = re.search(r"email call of `([\w-]+)` is open", text)
    assert open_at_kill is not None, text
    assert f"was lost with {open_at_kill[1]}" in text

    posted = re.search(r"posted twice: (\S+) and ([^\s,]+)", text)
    assert posted is not None, text
    assert posted[1] == posted[2]
