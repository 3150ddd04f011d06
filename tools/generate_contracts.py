"""Write libs/contracts from proto/: what buf.gen.yaml generates, moved under `perdure_contracts`.

The generators follow the proto package, so they would claim `perdure`, the name of the SDK.
Files are replaced one by one and only where they differ: what runs meanwhile keeps working.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = ROOT / "libs" / "contracts" / "perdure_contracts"
GOOGLEAPIS = ROOT / ".perdure" / "googleapis"
GOOGLE_FOLDERS = ("google/api", "google/rpc")
SERVICE_CONFIGS = (
    Path("v1", "service_config.json"),
    Path("v1", "worker_service_config.json"),
)
CONTEXT_TYPE = re.compile(r"(?<=_aio\.ServicerContext\[).*(?=\],$)", re.MULTILINE)
WRAPPED_TYPE = re.compile(r"_abc\.(?:AsyncIterator|Awaitable)\[([\w.]+)\]")
PROTO_PACKAGE = re.compile(r"\bperdure\.((?:internal\.)?(?:v\d+|keda))(?= import |\.\w+_pb2\b)")


def main() -> int:
    """Generate, move and write; the exit status is that of buf."""
    copy_googleapis()
    with tempfile.TemporaryDirectory() as folder:
        buf = ROOT / ".venv" / "bin" / "buf"
        done = subprocess.run([buf, "generate", "-o", folder], cwd=ROOT, check=False)
        if done.returncode == 0:
            replace_contents(moved_files(Path(folder) / "perdure"))
    return done.returncode


def copy_googleapis() -> None:
    """Copy the google protos that ours import out of their wheel, so that buf needs no network."""
    spec = find_spec("google.api")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("googleapis-common-protos is not installed\n  in .venv\n  run `make setup`")
    source = Path(spec.submodule_search_locations[0]).parent.parent
    for folder in GOOGLE_FOLDERS:
        (GOOGLEAPIS / folder).mkdir(parents=True, exist_ok=True)
        for proto in sorted((source / folder).glob("*.proto")):
            shutil.copyfile(proto, GOOGLEAPIS / folder / proto.name)


def moved_files(generated: Path) -> dict[Path, str]:
    """Return path below `perdure_contracts` -> text: no empty service file, every `__init__.py`.

    The configurations that clients give to their channels stand beside the code.
    """
    files = {Path("__init__.py"): '"""Generated from proto/ by `make generate`."""\n'}
    for path in sorted(generated.rglob("*.py*")):
        text = corrected_contexts(path.read_text())
        if "_grpc.py" in path.name and "\nclass " not in text:
            continue
        relative = path.relative_to(generated)
        files[relative] = PROTO_PACKAGE.sub(r"perdure_contracts.\1", text)
        for parent in relative.parents:
            files.setdefault(parent / "__init__.py", "")
    for config in SERVICE_CONFIGS:
        files[config] = (ROOT / "proto" / "perdure" / config).read_text()
    return files


def corrected_contexts(text: str) -> str:
    """Type a servicer's context by its messages; mypy-protobuf wraps them in iterators."""
    return CONTEXT_TYPE.sub(lambda found: WRAPPED_TYPE.sub(r"\1", found.group()), text)


def replace_contents(files: dict[Path, str]) -> None:
    """Make `perdure_contracts` hold exactly `files`, touching only what differs."""
    for path in [*CONTRACTS.rglob("*.py"), *CONTRACTS.rglob("*.pyi")]:
        if path.relative_to(CONTRACTS) not in files:
            path.unlink()
    for relative, text in files.items():
        target = CONTRACTS / relative
        if target.exists() and target.read_text() == text:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        fresh.write_text(text)
        os.replace(fresh, target)


if __name__ == "__main__":
    sys.exit(main())
