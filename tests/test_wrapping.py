"""What is printed keeps to COLUMNS, but for names and paths that are longer; for programs lines stay whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.diff import compare_named
from tcprobe.isa import inventory
from tcprobe.question.terminal import fold
from tcprobe.store.choose import default


@given(st.text("ab ,:", max_size=200), st.integers(8, 100))
def test_a_folded_line_has_all_words_in_order(text, columns):
    lines = fold(text, columns)
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= columns or " " not in line.strip() for line in lines)
    assert fold(text, None) == [text]


@pytest.mark.parametrize(
    "words", [("doctor",), ("list", "mma.m16n8k*"), ("diff", "sm_75", "sm_80"), ("compare", "--arch", "sm_80")]
)
@pytest.mark.parametrize("columns", [60, 80])
def test_commands_keep_to_columns(words, columns, monkeypatch):
    from click.testing import CliRunner

    from tcprobe.cli import main

    monkeypatch.setenv("COLUMNS", str(columns))
    out = CliRunner().invoke(main, words).stdout
    wide = [line for line in out.splitlines() if len(line) > columns and " " in line.strip()]
    assert wide == []
    assert out


@pytest.mark.full
def test_every_fragment_is_compared_or_absent_with_a_reason():
    (both,) = compare_named(("sm_75", "sm_80"), None, default())
    reasons = {(a.id, a.side): a.reason for a in both.absent}
    assert all(reasons.values())
    without = {id_ for id_, _ in reasons}
    tables = {*both.same, *(change.id for change in both.changed)}
    assert tables | without == set(inventory.fragments())
    assert not tables & without
