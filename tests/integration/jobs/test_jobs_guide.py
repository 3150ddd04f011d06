"""The guide on jobs does what it says: its commands in their order, and its Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from perdure import Client
from perdure_testkit.command_line import Command

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "jobs.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


async def test_the_commands_of_the_guide_work_in_their_order(
    perdure: Command, tmp_path: Path
) -> None:
    (schema,) = blocks("json")
    (tmp_path / "mail.json").write_text(schema)
    (tmp_path / "readers.jsonl").write_text('{"to": "cy@here.example"}\n')
    job = ""
    for line in "".join(blocks("sh")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "perdure"
        done = await perdure(*(one.replace("$JOB", job) for one in arguments))
        assert (done.status, done.err) == (0, ""), line
        if arguments[:2] == ["job", "enqueue"]:
            job = job or done.out.strip()


async def test_the_python_of_the_guide_enqueues_each_reader_once(client: Client) -> None:
    (code,) = blocks("python")
    guide: dict[str, object] = {}
    exec(code, guide)
    welcome = guide["welcome"]
    assert callable(welcome)
    first = await welcome(client, ["ann", "bob"])
    assert len(set(first)) == 2
    assert await welcome(client, ["ann", "bob"]) == first
