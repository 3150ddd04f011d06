"""The messages of methods, from JSON and as JSON, by protobuf's own rules."""

from __future__ import annotations

import json

from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from perdure_worker.executors.verdicts import CallFailed, of_unusable


class MessageInvalid(ValueError):
    """The request is no message that the method takes."""


def encoded(method: MethodDescriptor, text: str) -> bytes:
    """Return the message that JSON describes. Raises MessageInvalid."""
    message = GetMessageClass(method.input_type)()
    try:
        json_format.Parse(text, message, descriptor_pool=method.input_type.file.pool)
        return message.SerializeToString()
    except (json_format.ParseError, EncodeError, ValueError, RecursionError) as error:
        raise MessageInvalid(f"the request is no {method.input_type.full_name}: {error}") from error


def decoded(method: MethodDescriptor, answer: bytes, shown: str, *, whole: bool = False) -> bytes:
    """Return an answer as JSON; `whole` with the plain fields that hold nothing.

    `shown` is what was called, for people. Raises CallFailed.
    """
    try:
        message = GetMessageClass(method.output_type).FromString(answer)
        value = json_format.MessageToDict(
            message,
            always_print_fields_with_no_presence=whole,
            descriptor_pool=method.output_type.file.pool,
        )
    except (DecodeError, json_format.SerializeToJsonError, TypeError, ValueError) as error:
        what = f"{shown} was answered with no {method.output_type.full_name}: {error}"
        raise CallFailed(of_unusable(200, "RESPONSE_UNREADABLE"), what) from error
    return json.dumps(value, separators=(",", ":")).encode()
