"""The public protos, as the HTTP door and its description read them."""

from __future__ import annotations

import importlib
import pkgutil

import perdure_contracts.v1
from google.protobuf.descriptor import FileDescriptor


def public_files() -> tuple[FileDescriptor, ...]:
    """Return every file of the public package, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(perdure_contracts.v1.__path__))
    return tuple(
        importlib.import_module(f"perdure_contracts.v1.{name}").DESCRIPTOR
        for name in names
        if name.endswith("_pb2")
    )
