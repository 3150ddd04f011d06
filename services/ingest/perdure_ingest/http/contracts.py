"""The public protos, as the HTTP door and its description read them."""

from __future__ import annotations

import importlib
import pkgutil

import perdure_contracts.v1
from google.protobuf.descriptor import FileDescriptor

SERVED_ELSEWHERE = frozenset({"worker_service_pb2"})
"""What the worker serves, at its own port."""


def public_files() -> tuple[FileDescriptor, ...]:
    """Return every file of the public package that ingest serves, by name."""
    found = {module.name for module in pkgutil.iter_modules(perdure_contracts.v1.__path__)}
    names = sorted(found - SERVED_ELSEWHERE)
    return tuple(
        importlib.import_module(f"perdure_contracts.v1.{name}").DESCRIPTOR
        for name in names
        if name.endswith("_pb2")
    )
