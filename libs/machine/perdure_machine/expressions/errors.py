"""What goes wrong with expressions: at publish, and while a run evaluates one."""

from __future__ import annotations

from enum import StrEnum

from perdure_runtime.errors import InvalidArgument, Reason


class ExpressionCode(StrEnum):
    """The code of a node's error when an expression of it failed; the class is permanent."""

    ABSENT = "EXPRESSION_ABSENT"
    TYPE = "EXPRESSION_TYPE"
    NUMBER_OUT_OF_RANGE = "NUMBER_OUT_OF_RANGE"
    TEXT_NOT_SUPPORTED = "TEXT_NOT_SUPPORTED"
    LIMIT = "EXPRESSION_LIMIT"
    NOT_ONE_OF = "NOT_ONE_OF"
    TOO_MANY_ROWS = "TOO_MANY_ROWS"
    TOO_LARGE = "PAYLOAD_TOO_LARGE"
    ERROR = "EXPRESSION_ERROR"


class ExpressionInvalid(InvalidArgument):
    """The expression cannot be compiled; `hint` says what to write instead, if that is known."""

    def __init__(self, message: str, source: str, hint: str = "") -> None:
        super().__init__(message, reason=Reason.EXPRESSION_INVALID, metadata={"source": source})
        self.hint = hint


class ExpressionFailed(InvalidArgument):
    """The expression has no value for what the run gave it; the same values fail again.

    `code` is an `ExpressionCode`, `source` the expression's text.
    """

    def __init__(self, code: ExpressionCode, message: str, source: str) -> None:
        super().__init__(
            message,
            reason=Reason.EXPRESSION_INVALID,
            metadata={"expression_code": code, "source": source},
        )
        self.expression_code = code
        self.source = source
