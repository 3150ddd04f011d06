import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from perdure_runtime.error_reference import page as table
from perdure_runtime.errors import (
    KINDS,
    MAX_ERROR_TEXT,
    Code,
    FieldViolation,
    InvalidArgument,
    NotFound,
    PerdureError,
    Reason,
    Unavailable,
    clean_text,
)

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "errors"
KIND_OF = {kind.__name__: kind for kind in KINDS}
OF_PROCESSES = {Reason.CONFIG_INVALID}
"""No call is answered with them alone: a process that starts raises them in kinds that suit."""


def test_every_reason_has_a_page_and_every_page_a_reason() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {str(reason) for reason in Reason}


@pytest.mark.parametrize("reason", Reason)
def test_a_page_says_what_the_reason_means_and_what_to_do(reason: Reason) -> None:
    page = (PAGES / f"{reason}.md").read_text()
    assert page.startswith(f"# {reason}\n\n{reason.doc}\n")
    assert "\n## What to do\n" in page
    assert re.search(rf"^gRPC code: {reason.code}\b", page, re.MULTILINE)


def test_the_table_of_reasons_is_up_to_date() -> None:
    hint = "run: python -m perdure_runtime.error_reference > docs/errors/README.md"
    assert (PAGES / "README.md").read_text() == table(), hint


def test_each_reason_is_raised_with_the_code_of_its_row() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno} {kind} {reason}"
        for path in sorted(ROOT.glob("*/*/perdure*/**/*.py"))
        for call, kind, reason in raised(ast.parse(path.read_text()))
        if reason.code is not KIND_OF[kind].code and reason not in OF_PROCESSES
    ]
    assert wrong == []


def raised(tree: ast.Module) -> Iterator[tuple[ast.Call, str, Reason]]:
    """Yield what makes an error, with its kind and each reason that it names."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        kind = ast.unparse(call.func).rpartition(".")[2]
        given = [one.value for one in call.keywords if one.arg == "reason"]
        if kind in KIND_OF and given:
            for name in re.findall(r"\bReason\.([A-Z_]+)", ast.unparse(given[0])):
                yield call, kind, Reason[name]


@pytest.mark.parametrize("reason", Reason)
def test_waiting_helps_where_the_code_says_so(reason: Reason) -> None:
    """Who repeats on a code alone finds no reason there for which that is in vain."""
    if reason.code in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED):
        assert reason.wait is not None
    if reason.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED):
        assert reason.wait is None


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_travels_in_error_info_unchanged(reason: Reason) -> None:
    assert Reason(str(reason)) is reason
    assert str(reason) == str(reason).upper()
    assert len(reason) <= 63
    assert reason.doc.endswith(".")


def test_each_kind_is_one_code_and_each_code_has_its_kind() -> None:
    assert sorted(kind.code for kind in KINDS) == sorted(Code)


def test_r12_error_texts_are_cleaned_and_never_refused() -> None:
    error = NotFound("a\0b\ud800c", reason=Reason.RUN_NOT_FOUND, metadata={"run_id": "\udfff"})
    assert error.message == str(error) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"
    assert error.metadata["run_id"] == "\N{REPLACEMENT CHARACTER}"
    error.message.encode()


def test_r12_a_long_error_text_is_cut_to_the_limit() -> None:
    assert clean_text("x" * MAX_ERROR_TEXT) == "x" * MAX_ERROR_TEXT
    cut = clean_text("x" * (MAX_ERROR_TEXT + 1))
    assert len(cut) == MAX_ERROR_TEXT
    assert cut.endswith("x…")


def test_f100_a_nul_in_a_violation_is_cleaned() -> None:
    error = InvalidArgument("no", violations=[FieldViolation("a\0", "b\0")])
    assert "\0" not in error.violations[0].field + error.violations[0].description


def test_attributes_carry_what_a_program_needs() -> None:
    error = Unavailable("later", reason=Reason.DRAINING, retry_after=1.5)
    assert (error.code, error.reason, error.retry_after) == (Code.UNAVAILABLE, "DRAINING", 1.5)
    assert isinstance(error, PerdureError)


def test_metadata_cannot_be_changed_after_the_fact() -> None:
    error = NotFound("no", reason=Reason.RUN_NOT_FOUND, metadata={"run_id": "1"})
    with pytest.raises(TypeError):
        error.metadata["run_id"] = "2"  # type: ignore[index]


def test_errors_and_fail_points_import_the_standard_library_alone() -> None:
    script = (
        "import sys; import perdure_runtime.errors, perdure_runtime.fail_points; "
        "own = {'perdure_runtime'}; "
        "print([m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names | own"
        " and not m.startswith('_') and getattr(sys.modules[m], '__file__', None)])"
    )
    listed = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path.insert(0, sys.argv[1]);" + script,
         str(Path(__file__).parents[2] / "libs" / "runtime")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.strip() == "[]"
