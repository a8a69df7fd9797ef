"""Absence is not an error: below cli an error of usage is not caught to find out whether there is something."""

import ast
from pathlib import Path

import pytest

from tcprobe.errors import DataError, UsageError, answer_or_none

ROOT = Path(__file__).parent.parent / "tcprobe"
# who catches one and goes on, and why: each hands on what the error says
GO_ON = {
    "errors.py": "answered: the one place that turns it into None",
    "ask/convert/stmatrix.py": "of two ways the first one's reason counts where neither is there",
    "ask/banks/__init__.py": "words that name no access are those of a fragment",
    "ask/tensor_memory.py": "of several places one that nobody states is said beside the others",
    "ask/path/steps.py": "of several widths the last one's reason counts where none is there",
    "audit/package_audit.py": "what is wrong with a stated table is its ruling",
    "check/rules/descriptor.py": "bits that no descriptor has are the finding",
    "emulate/instructions/wgmma.py": "bits that no descriptor has are the finding",
    "notation/cute.py": "the place in the text is added",
    "order/explain.py": "a form that does not fit a tree is no candidate; where none is left all reasons are said",
    "run/campaign.py": "why no GPU is taken is said, and machine code takes its place",
}


def going_on():
    """Files below cli that catch UsageError without raising an error of more words."""
    for path in sorted(ROOT.rglob("*.py")):
        handlers = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler))
        caught = [node for node in handlers if node.type and "UsageError" in ast.unparse(node.type)]
        if any(not isinstance(node.body[-1], ast.Raise) for node in caught):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.full
def test_below_cli_only_these_go_on_after_an_error_of_usage():
    below = {path for path in going_on() if not path.startswith(("cli/", "question/"))}
    assert below == GO_ON.keys()


def test_what_is_answered_and_what_is_not():
    def refuses(error):
        raise error("no")

    assert answer_or_none(lambda: 0) == 0
    assert answer_or_none(lambda: refuses(UsageError)) is None
    with pytest.raises(DataError, match="no"):  # it is no absence
        answer_or_none(lambda: refuses(DataError))
