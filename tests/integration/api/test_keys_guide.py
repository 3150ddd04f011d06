"""The guide on keys does what it says: its commands in their order, its roles and its scopes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from perdure_runtime.access import Permission, Role
from perdure_testkit.command_line import command_at

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "keys.md"


async def test_the_commands_of_the_guide_work_in_their_order(
    address: str, api_key: str, tmp_path: Path
) -> None:
    perdure = command_at(address, tmp_path, api_key=api_key)
    text = "".join(re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE))
    printed = {}
    for line in text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "perdure"
        done = await perdure(*arguments)
        assert done.status == 0, (line, done)
        printed[" ".join(arguments)] = done.out
    assert printed["keys list"].count(" good") == 2
    assert "key.revoke" in printed["audit --action key.revoke"]


def test_the_guide_names_every_role_and_every_scope() -> None:
    text = GUIDE.read_text()
    assert [role for role in Role if f"| {role} |" not in text] == []
    assert [scope for scope in Permission if f"`{scope}`" not in text] == []
