import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from perdure_stack.ports import free_port
from perdure_stack.services import ServiceSpec

FAKE_SERVICE = Path(__file__).with_name("fake_service.py")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path that every user of the machine can enter."""
    directory = Path(tempfile.mkdtemp(prefix="pd-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def journal(place: Path) -> Path:
    """The file into which fake services write what happens to them."""
    file = place / "journal"
    file.touch()
    return file


@pytest.fixture
def fake_service(journal: Path) -> Callable[..., ServiceSpec]:
    """Describe a small HTTP server that plays a service; FAKE_* variables misguide it."""

    def describe(name: str, env: Mapping[str, str] | None = None) -> ServiceSpec:
        port = free_port()
        told = {"FAKE_JOURNAL": str(journal), "PERDURE_OPS_PORT": str(port), **(env or {})}
        command = (sys.executable, "-I", "-S", str(FAKE_SERVICE), name)
        return ServiceSpec(name, command, told, f"http://127.0.0.1:{port}/readyz")

    return describe


@pytest.fixture
def fake_perdure(place: Path, journal: Path) -> dict[str, str]:
    """An environment in which every service, and the migration, is the fake one."""
    modules = place / "modules"
    services = ("store", "ingest", "coordinator", "relay", "worker", "timer", "sweeper")
    for service in services:
        package = modules / f"perdure_{service}"
        package.mkdir(parents=True)
        source = f"import runpy, sys\nsys.argv.insert(1, {service!r})\n"
        source += f"runpy.run_path({str(FAKE_SERVICE)!r}, run_name='__main__')\n"
        (package / "__main__.py").write_text(source, encoding="utf-8")
        (package / "__init__.py").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "PYTHONPATH": str(modules), "FAKE_JOURNAL": str(journal)}
