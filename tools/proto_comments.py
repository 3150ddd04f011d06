"""The comments of the protos by the full names of what they stand above."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

ROOT = Path(__file__).resolve().parent.parent

Place = tuple[int, ...]
"""Where something stands in a file, as `SourceCodeInfo` counts it."""

_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6
_FIELDS, _NESTED_MESSAGES, _NESTED_ENUMS, _VALUES, _METHODS = 2, 3, 4, 2, 2


def comments() -> dict[str, str]:
    """Return every comment of the public protos, its lines joined."""
    buf = ROOT / ".venv" / "bin" / "buf"
    command = [str(buf), "build", "--path", "proto/perdure/v1", "-o", "-"]
    built = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = dict[str, str]()
    for file in FileDescriptorSet.FromString(built.stdout).file:
        texts = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
        for place, name in _names(file):
            if text := texts.get(place, "").strip():
                found[name] = " ".join(line.strip() for line in text.splitlines())
    return found


def _names(file: FileDescriptorProto) -> Iterator[tuple[Place, str]]:
    prefix = f"{file.package}." if file.package else ""
    for index, message in enumerate(file.message_type):
        yield from _of_message(message, (_MESSAGES, index), prefix)
    for index, enum in enumerate(file.enum_type):
        yield from _of_enum(enum, (_ENUMS, index), prefix)
    for index, service in enumerate(file.service):
        yield from _of_service(service, (_SERVICES, index), prefix)


def _of_message(message: DescriptorProto, place: Place, prefix: str) -> Iterator[tuple[Place, str]]:
    name = f"{prefix}{message.name}"
    yield place, name
    for index, field in enumerate(message.field):
        yield (*place, _FIELDS, index), f"{name}.{field.name}"
    for index, nested in enumerate(message.nested_type):
        yield from _of_message(nested, (*place, _NESTED_MESSAGES, index), f"{name}.")
    for index, enum in enumerate(message.enum_type):
        yield from _of_enum(enum, (*place, _NESTED_ENUMS, index), f"{name}.")


def _of_enum(enum: EnumDescriptorProto, place: Place, prefix: str) -> Iterator[tuple[Place, str]]:
    yield place, f"{prefix}{enum.name}"
    for index, value in enumerate(enum.value):
        yield (*place, _VALUES, index), f"{prefix}{enum.name}.{value.name}"


def _of_service(
    service: ServiceDescriptorProto, place: Place, prefix: str
) -> Iterator[tuple[Place, str]]:
    name = f"{prefix}{service.name}"
    yield place, name
    for index, method in enumerate(service.method):
        yield (*place, _METHODS, index), f"{name}.{method.name}"
