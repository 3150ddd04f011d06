"""What an executor or an expression says went wrong: cleaned, cut, classed, never refused."""

import pytest
from perdure_machine.expressions import ExpressionFailed
from perdure_machine.expressions.errors import ExpressionCode
from perdure_machine.node_error import (
    MAX_DETAILS,
    MAX_MESSAGE,
    encode_error,
    expression_error,
    reported_error,
)


@pytest.mark.parametrize("category", ["", "fatal", "RETRYABLE"])
def test_an_unknown_class_counts_as_retryable(category: str) -> None:
    assert reported_error(category, "E", "m", None).category == "retryable"


def test_f100_texts_are_cleaned_and_cut_and_an_empty_code_gets_a_name() -> None:
    error = reported_error("permanent", "", "a\x00b\ud800" + "x" * 10_000, None)
    assert error.code == "ERROR"
    assert len(error.message) <= MAX_MESSAGE
    assert "\x00" not in error.message
    encode_error(error)


def test_f093_details_that_are_too_large_are_dropped() -> None:
    huge = b'"' + b"x" * MAX_DETAILS + b'"'
    assert reported_error("permanent", "E", "m", huge).details is None


def test_an_expression_without_a_value_is_a_permanent_error_of_its_node() -> None:
    failure = ExpressionFailed(ExpressionCode.ABSENT, "it is absent", "nodes.a.output.x")
    error = expression_error(failure, "b")
    assert (error.category, error.code, error.node) == ("permanent", "EXPRESSION_ABSENT", "b")
    assert "nodes.a.output.x" in error.message
