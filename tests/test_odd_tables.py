"""Tables that no fragment has: every emitter, `convert` and the drawings give what is right, or say why they cannot."""

import dataclasses
import json
import random
import re
import runpy
import tempfile
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import emulation
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe import emit
from tcprobe.ask.convert import convert
from tcprobe.ask.convert.plan import run
from tcprobe.errors import UsageError
from tcprobe.fit import fit
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import Role
from tcprobe.layout import grid
from tcprobe.layout.table import slot_table
from tcprobe.store import acceptance
from tcprobe.store.cell import load, operands
from tcprobe.store.results import published

RESULTS = published()
INSTRUCTIONS = (
    "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "wmma.mma.row.col.m16n16k16.f32.f32",
    "mma.m8n8k4.row.col.f32.f16.f16.f32",
    "mma.m16n8k32.row.col.s32.s4.s4.s32",
)


@cache
def tables(name):
    return operands(resolve(name).instruction, "sm_90", RESULTS)


def with_table(cell, table):
    return dataclasses.replace(cell, table=table)


def cells_of(cell, cells):
    """The same Known with other cells; None means unused."""
    names = cell.table.outputs
    values = {n: tuple(None if c is None else c[j] for c in cells) for j, n in enumerate(names)}
    return with_table(cell, slot_table(cell.table.threads, len(cells) // cell.table.threads, values))


def unused(cell, rng):
    cells = list(cell.table.cells)
    for slot in rng.sample(range(len(cells)), rng.randint(1, len(cells))):
        cells[slot] = None
    return cells_of(cell, cells)


def nothing(cell, _rng):
    return cells_of(cell, [None] * cell.table.points)


def duplicated(cell, rng):
    cells = list(cell.table.cells)
    for _ in range(rng.randint(1, 8)):
        cells[rng.randrange(len(cells))] = rng.choice(cells)
    return cells_of(cell, cells)


def constant(cell, _rng):
    return cells_of(cell, [cell.table.cells[0]] * cell.table.points)


def outside(cell, rng):
    cells = list(cell.table.cells)
    slot = rng.randrange(len(cells))
    cells[slot] = (cells[slot][0] + rng.choice([1, 16, 1000]), *cells[slot][1:])
    return cells_of(cell, cells)


def longer(cell, _rng):
    return cells_of(cell, [*cell.table.cells, *cell.table.cells])


def shorter(cell, _rng):
    size = cell.table.elements // 2
    cells = cell.table.cells
    return cells_of(cell, [cells[s] for s in range(len(cells)) if s % cell.table.elements < max(1, size)])


def other_outputs(cell, _rng):
    values = dict(cell.table.values)
    if values.pop("product", None) is None:
        values["product"] = (1,) * cell.table.points
    return with_table(cell, slot_table(cell.table.threads, cell.table.elements, values))


def permuted(cell, rng):
    """Not linear, but every element as often as it should be."""
    return cells_of(cell, rng.sample(cell.table.cells, cell.table.points))


def swapped(cell, rng):
    cells = list(cell.table.cells)
    i, j = rng.sample(range(len(cells)), 2)
    cells[i], cells[j] = cells[j], cells[i]
    return cells_of(cell, cells)


def relabelled(cell, rng):
    """Linear, with rows and columns XORed: still a possible fragment."""
    fragment = cell.fragment
    r, c = rng.randrange(fragment.rows), rng.randrange(fragment.cols)
    return cells_of(cell, [(row ^ r, col ^ c, *rest) for row, col, *rest in cell.table.cells])


UNFIT = (unused, nothing, duplicated, constant, outside, longer, shorter, other_outputs)
FIT = (permuted, swapped, relabelled)
LISTED = {"csv", "json", "markdown"}  # formats that list slots, and say nothing of others


def cases(seed):
    rng = random.Random(seed)
    for name in INSTRUCTIONS:
        for change in (*UNFIT, *FIT):
            whole = tables(name)
            operand = rng.choice("abcd")
            yield change, whole | {operand: change(whole[operand], rng)}, operand


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(4)
def test_every_format_tells_the_truth_or_says_why_not(seed):
    told, refused = 0, 0
    for change, given_, operand in cases(seed):
        one = given_[operand]
        broken = acceptance.misfit(one.fragment, one.table)
        assert bool(broken) == (change in UNFIT) or change in (duplicated, unused)
        for name in emit.names():
            chosen = [one] if name in LISTED else list(given_.values())
            text = emitted(name, chosen)
            assert text or name not in LISTED
            assert not text or name in LISTED or not broken, (name, change)
            told, refused = told + bool(text), refused + (not text)
            if text:
                check(name, text, one)
    assert told > 100
    assert refused > 100


def emitted(name, chosen):
    """The text, None where the format cannot express it, and says of what."""
    try:
        return emit.emit(name, chosen)
    except UsageError as error:
        if not re.search(r"w?mma\.|whole instruction", str(error)):
            raise
        return None


def check(name, text, cell):
    """That a text says the table."""
    if name == "csv":
        lines = [tuple(map(int, line.split(","))) for line in text.splitlines()[1:]]
        listed = {divmod_(slot, cell): e for slot, e in enumerate(cell.table.cells) if e is not None}
        assert {(lane, i): tuple(e) for lane, i, *e in lines} == listed
    if name == "json":
        (found,) = json.loads(text)
        flat = [None if c is None else tuple(c) for lane in found["table"] for c in lane]
        assert flat == [None if c is None else c[:2] for c in cell.table.cells]
    if name.startswith("svg"):
        assert ET.fromstring(text).tag.endswith("svg")


def divmod_(slot, cell):
    return divmod(slot, cell.table.elements)


@pytest.mark.parametrize("change", [*UNFIT, *FIT])
def test_python_and_numpy_give_the_very_table_or_refuse(change):
    rng = random.Random(change.__name__)
    for name in INSTRUCTIONS:
        cell = change(tables(name)["d"], rng)
        for style in ("python", "numpy"):
            try:
                scope = executed(emit.emit(style, [cell]))
            except UsageError:
                continue
            made = scope[emit.common.identifier(cell.fragment.id)]
            for slot, element in enumerate(cell.table.cells):
                lane, i = divmod_(slot, cell)
                found = (
                    (made.row(lane, i), made.col(lane, i))
                    if style == "python"
                    else (made.ROW[lane, i], made.COL[lane, i])
                )
                assert found == element[:2]


def executed(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emitted.py"
        path.write_text(text)
        return runpy.run_path(str(path))


def pairs():
    yield "mma.m16n8k16.row.col.f32.f16.f16.f32", "d", "a"
    yield "mma.m16n8k16.row.col.f32.f16.f16.f32", "d", "d"
    yield "wmma.mma.row.col.m16n16k16.f32.f32", "d", "a"
    yield "mma.m16n8k32.row.col.s32.s4.s4.s32", "a", "a"
    yield "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "d", "a"


@pytest.mark.full
@pytest.mark.parametrize("change", [*UNFIT, *FIT])
@pytest.mark.parametrize(("name", "source", "target"), list(pairs()))
def test_convert_moves_every_element_or_says_why_not(change, name, source, target):
    """Where there is a plan, it is run: each register of the target then holds what its table says."""
    rng = random.Random(f"{change.__name__} {name} {source} {target}")
    whole = operands(resolve(name).instruction, "sm_90", RESULTS)
    for from_, to in ((change(whole[source], rng), whole[target]), (whole[source], change(whole[target], rng))):
        if change in UNFIT:
            with pytest.raises(UsageError, match="cannot be a table of"):
                convert(from_, to)
            continue
        found = convert(from_, to)
        assert bool(found.plan) != (found.summary.startswith("not possible"))
        for lane, registers in enumerate(run(found.plan, found.tiling) if found.plan else []):
            for (tile, register), word in registers.items():
                units = range(register * found.plan.units, (register + 1) * found.plan.units)
                assert word == tuple(found.tiling.needed_unit(lane, (tile, unit)) for unit in units)


@examples(150)
@given(st.data())
def test_any_table_at_all_is_drawn_fitted_and_emitted_or_refused(data):
    """Of any size and content, also with nothing in it: never another exception than the tool's own."""
    threads, elements = 2 ** data.draw(st.integers(0, 6)), data.draw(st.integers(1, 9))
    cell = st.none() | st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 4))
    few = data.draw(st.lists(cell, min_size=1, max_size=4))
    cells = data.draw(st.lists(st.sampled_from(few), min_size=threads * elements, max_size=threads * elements))
    names = ("row", "col", "product")[: data.draw(st.integers(2, 3))]
    table = slot_table(threads, elements, {n: tuple(c and c[j] for c in cells) for j, n in enumerate(names)})
    cell = with_table(
        load(data.draw(st.sampled_from(["wmma.m16n16k16.d.f32", "mma.m8n8k16.row.col.s32.s8.s8.s32.a"]))), table
    )
    assert list(grid.matrix(table, 80)) is not None
    assert list(grid.lanes(table, cell.fragment, 80))
    assert fit(table).verdict
    for name in emit.names():
        text = emitted(name, [cell])
        assert text or name not in LISTED


def test_shuffled_tables_of_every_fragment_size_can_be_theirs():
    rng = random.Random(3)
    for fragment in [f for f in inventory.of_a_warp().values() if not f.selectors][::7]:
        make = emulation.pointed if fragment.role is Role.ADDRESS else emulation.shuffled
        assert acceptance.misfit(fragment, make(fragment, rng)) is None
