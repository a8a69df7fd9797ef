"""Asking a table: an answer inside its range, and an error with the value outside."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import load

TABLE = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90").table
ODD = st.one_of(
    st.integers(), st.booleans(), st.floats(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)


@examples(300)
@given(lane=ODD, i=ODD)
def test_at_answers_inside_its_range_only(lane, i):
    right = all(type(v) is int and 0 <= v < size for v, size in ((lane, 32), (i, 8)))
    if right:
        assert TABLE.at(lane, i) == dict(zip(("row", "col"), TABLE.cells[lane * 8 + i], strict=True))
        return
    with pytest.raises(UsageError) as caught:
        TABLE.at(lane, i)
    assert repr(lane) in str(caught.value) or repr(i) in str(caught.value)


@pytest.mark.parametrize(("lane", "i"), [(0, 8), (-1, 0), (0, -1), (32, 0), (True, 0), (0, False), (1.0, 0), ("1", 0)])
def test_at_says_which_value_is_wrong(lane, i):
    with pytest.raises(UsageError, match=r"is not a number from 0 to (31|7)"):
        TABLE.at(lane=lane, i=i)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        ({}, "not by nothing"),
        ({"row": 0}, "not by row"),
        ({"row": 0, "col": 0, "product": 0}, "not by row, col,"),
        ({"Row": 0, "col": 0}, "not by Row, col"),
        ({"row": 16, "col": 0}, "row 16 is not a number from 0 to 15"),
        ({"row": -1, "col": 0}, "row -1"),
        ({"row": 0, "col": 16}, "col 16"),
        ({"row": True, "col": 0}, "row True"),
        ({"row": 0, "col": None}, "col None"),
    ],
)
def test_holders_wants_the_outputs_and_values_inside(element, words):
    with pytest.raises(UsageError, match=words):
        TABLE.holders(**element)


@pytest.mark.parametrize(
    "text", ["\u00b2", "\uff11", "1_0", "+1", " 1", "-1", "1-", "3-1", "0-9999999999", "", "1" * 5000]
)
def test_rows_are_numbers_of_ascii_digits(text):
    done = CliRunner().invoke(main, ["where", "wmma.m16n16k16.d.f32", f"--row={text}"])
    assert (done.exit_code, "number" in done.stderr) == (2, True)


def test_holders_of_a_table_of_one_output():
    assert slot_table(2, 1, {"row": (0, 2)}).holders(row=2) == [(1, 0)]
    assert slot_table(2, 1, {"row": (0, 2)}).holders(row=1) == []
