"""Tables of facts: a line more is a fact more, and a wrong cell is named with its file, line and column."""

from pathlib import Path

import pytest

import tcprobe
from tcprobe import facts
from tcprobe.emulate import forms
from tcprobe.errors import RowError
from tcprobe.isa.rows import mma, moves, tcgen05, wgmma, wmma
from tcprobe.references import cost, cute, numerics, ptx_isa

LOADERS = {
    "mma.csv": lambda: list(mma.forms()),
    "wmma.csv": wmma._forms.__wrapped__,
    "wgmma.csv": wgmma.rows.__wrapped__,
    "moves.csv": moves.rows.__wrapped__,
    "tcgen05_multiplies.csv": tcgen05.multiplies.__wrapped__,
    "tcgen05_moves.csv": tcgen05.moves.__wrapped__,
    "costs.csv": cost.rows.__wrapped__,
    "numerics.csv": numerics.published.__wrapped__,
    "cute_multiplies.csv": cute.atoms.__wrapped__,
    "cute_copies.csv": cute.copy_atoms.__wrapped__,
    "forms.csv": forms.rows.__wrapped__,
    "ptx_isa.csv": ptx_isa.formula_rows.__wrapped__,
}


@pytest.fixture
def table(request, monkeypatch):
    """How a table is read: its text, the type of its rows, what reads its columns."""
    asked = []
    monkeypatch.setattr(
        facts,
        "read",
        lambda beside, name, row, /, **columns: asked.append((Path(beside).with_name(name), row, columns)) or (),
    )
    LOADERS[request.param]()
    ((path, row, columns),) = asked
    assert path.name == request.param
    return path.read_text("utf-8"), row, columns


@pytest.mark.parametrize("table", LOADERS, indirect=True)
def test_a_line_more_is_a_fact_more_wherever_it_stands(table):
    text, row, columns = table
    known = facts.parse("t.csv", text, row, **columns)
    free = next(name for name in row._fields if name not in columns)
    head, *lines = text.splitlines()
    for at in (0, len(lines)):
        new = known[min(at, len(known) - 1)]._replace(**{free: "nowhere"})
        more = [*lines[:at], with_cell(lines[min(at, len(lines) - 1)], row, free, "nowhere"), *lines[at:]]
        found = facts.parse("t.csv", "\n".join([head, *more]), row, **columns)
        assert found == (*known[:at], new, *known[at:])


@pytest.mark.parametrize("table", LOADERS, indirect=True)
def test_a_wrong_cell_is_named(table):
    text, row, columns = table
    lines = text.splitlines()
    assert columns
    for column in columns:
        wrong = with_cell(lines[-1], row, column, "?(!")
        if columns[column] is facts.words or column == "names":
            continue  # free text
        with pytest.raises(RowError) as raised:
            facts.parse("t.csv", f"{text}{wrong}\n", row, **columns)
        assert str(raised.value).startswith(f"t.csv, line {len(lines) + 1}, column {column}: '?(!'")


def with_cell(line, row, column, cell):
    """The line of a table with another cell in a column."""
    import csv
    import io

    (cells,) = csv.reader([line])
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(
        [cell if name == column else own for name, own in zip(row._fields, cells, strict=True)]
    )
    return written.getvalue()


def test_tables_are_text_that_git_shows():
    """UTF-8 without a carriage return, a line break at the end, no space around a cell."""
    tables = sorted(Path(tcprobe.__file__).parent.rglob("*.csv"))
    assert {path.name for path in tables} >= set(LOADERS)
    for path in tables:
        text = path.read_bytes().decode("utf-8")
        assert "\r" not in text, path
        assert text.endswith("\n"), path
        assert not [line for line in text.splitlines() if line != line.strip()], path
