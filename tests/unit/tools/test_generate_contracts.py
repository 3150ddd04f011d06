"""What the generators write is moved to perdure_contracts without touching what stays the same."""

from pathlib import Path

import pytest

from tools import generate_contracts


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_imports_and_module_names_are_moved(tmp_path: Path) -> None:
    code = "from perdure.v1 import run_pb2 as x\nbuild('perdure.internal.v1.a_pb2')\n"
    write(tmp_path, "internal/v1/a_pb2.py", code)
    files = generate_contracts.moved_files(tmp_path)
    assert files[Path("internal/v1/a_pb2.py")] == (
        "from perdure_contracts.v1 import run_pb2 as x\n"
        "build('perdure_contracts.internal.v1.a_pb2')\n"
    )
    assert {Path("__init__.py"), Path("internal/__init__.py"), Path("internal/v1/__init__.py")} < (
        files.keys()
    )


def test_names_on_the_wire_keep_the_proto_package(tmp_path: Path) -> None:
    code = "call('/perdure.v1.RunService/GetRun')\nclass S: ...\n"
    write(tmp_path, "v1/a_pb2_grpc.py", code)
    assert generate_contracts.moved_files(tmp_path)[Path("v1/a_pb2_grpc.py")] == code


def test_service_files_without_a_service_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "v1/a_pb2_grpc.py", "import grpc\n")
    assert Path("v1/a_pb2_grpc.py") not in generate_contracts.moved_files(tmp_path)


def test_a_servicers_context_is_typed_by_its_messages() -> None:
    wrapped = (
        "        context: _aio.ServicerContext[_abc.AsyncIterator[_a.X], _abc.Awaitable[_a.Y]],"
    )
    assert generate_contracts.corrected_contexts(wrapped) == (
        "        context: _aio.ServicerContext[_a.X, _a.Y],"
    )


def test_only_what_differs_is_written_and_what_is_gone_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate_contracts, "CONTRACTS", tmp_path)
    write(tmp_path, "v1/same_pb2.py", "a = 1\n")
    write(tmp_path, "v1/gone_pb2.py", "b = 1\n")
    write(tmp_path, "py.typed", "")
    inode = (tmp_path / "v1/same_pb2.py").stat().st_ino
    generate_contracts.replace_contents(
        {Path("v1/same_pb2.py"): "a = 1\n", Path("v1/new_pb2.py"): "c = 1\n"}
    )
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"py.typed", "v1/same_pb2.py", "v1/new_pb2.py"}
    assert (tmp_path / "v1/same_pb2.py").stat().st_ino == inode
