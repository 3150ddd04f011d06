"""Compare the protos with those of the newest release: what did it compile or read that breaks now?

Usage: python -m tools.proto_breaking [REVISION]. Without a revision it is the newest tag of a
release that this checkout has; one that was made without tags compares with nothing, and says so.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.findings import ROOT

BUF = ROOT / ".venv" / "bin" / "buf"


def newest_tag() -> str | None:
    """Return the newest tag of a release that HEAD descends from, if any."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return found.stdout.strip() or None


def unpack(revision: str, folder: Path) -> None:
    """Write the protos of a revision to `folder`, with the google protos of today beside them."""
    archive = folder / "protos.tar"
    command = ["git", "archive", f"--output={archive}", revision, "proto", "buf.yaml"]
    subprocess.run(command, cwd=ROOT, check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    (folder / ".perdure").mkdir()
    (folder / ".perdure" / "googleapis").symlink_to(ROOT / ".perdure" / "googleapis")


def main() -> int:
    """Run buf; the exit status is its own."""
    revision = sys.argv[1] if len(sys.argv) > 1 else newest_tag()
    if revision is None:
        print("proto-breaking: not compared: no tag of a release here (git fetch --tags)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        unpack(revision, Path(folder))
        done = subprocess.run([BUF, "breaking", "--against", folder], cwd=ROOT, check=False)
    if done.returncode == 0:
        print(f"proto-breaking: ok (against {revision})")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
