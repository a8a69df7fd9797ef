"""Formats that are Python for other programs, run with stubs of their packages: every slot of every layout."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
import stand_ins
from emit_tables import distinct as of_warps
from emit_tables import nonlinear, number, scrambled, warpgroup
from hypothesis import given
from hypothesis import strategies as st
from test_metadata import CELLS, drawn, expected, spread
from test_odd_tables import with_table

from tcprobe import emit
from tcprobe.emit.common import cell_identifier
from tcprobe.errors import UsageError
from tcprobe.fit import linear
from tcprobe.isa.names import resolve, select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import emittable, for_emit, load, operands, selections
from tcprobe.store.results import published

RESULTS = published()
EVERY_N = "wgmma.mma_async.m64n*k16.f32.f16.f16.d"


def every_n():
    """D of all 32 widths: 4 to 128 elements a thread."""
    return for_emit(select(EVERY_N), "sm_90", RESULTS)


def emitted(name, cell):
    return stand_ins.run(emit.emit(name, [cell]))


def slots(cell):
    """(thread, i, row, col, product) of every slot."""
    return [(*divmod(s, cell.table.elements), *(*element, 0)[:3]) for s, element in enumerate(cell.table.cells)]


# Each gives every slot of a table, or raises what the format refuses it with.


def check_cute_dsl(cell):
    layout = emitted("cute-dsl", cell)[cell_identifier(cell)]()
    for thread, i, *element in slots(cell):
        assert layout((thread, i)) == number(cell.fragment, element), cell


def check_numba(cell):
    scope, copies = emitted("numba", cell), {}
    names = [f"{cell_identifier(cell)}_{output}" for output in cell.table.outputs]
    for thread, i, *_ in slots(cell):
        element = tuple(scope[name](thread, i) for name in names)
        assert element == cell.table.cells[thread * cell.table.elements + i]
        copy = copies[element] = copies.get(element, -1) + 1
        which = (copy,) if scope[f"{cell_identifier(cell)}_COPIES"] > 1 else ()
        for end, wanted in (("lane", thread), ("i", i)):
            function = scope.get(f"{cell_identifier(cell)}_{end}_of")
            assert function is None or function(*element, *which) == wanted


def check_tilelang(cell):
    text = emit.emit("tilelang", [cell])
    assert not any(sign in text.partition("import")[2] for sign in ("&", "|", "<<", ">>"))
    scope, name, copies = stand_ins.run(text), cell_identifier(cell), {}
    for thread, i, row, col, product in slots(cell):
        element = (product, row, col) if cell.fragment.products > 1 else (row, col)
        assert scope[name](thread, i) == element
        copy = copies[element] = copies.get(element, -1) + 1
        given_ = (*element, copy)
        for end, wanted in (("thread", thread), ("local", i)):
            function = scope[f"{name}_{end}"]
            assert function(*given_[: function.__code__.co_argcount]) == wanted


def check_mosaic(cell):
    """Read as the docstring of TiledLayout says."""
    f = cell.fragment
    layout, size = (
        emitted("mosaic", cell)[cell_identifier(cell)],
        ((f.products,) if f.products > 1 else ()) + (f.rows, f.cols),
    )
    assert layout.slots(size, f.threads) == [(p * f.rows + r) * f.cols + c for *_, r, c, p in slots(cell)], f.id


CHECKS = {"cute-dsl": check_cute_dsl, "mosaic": check_mosaic, "numba": check_numba, "tilelang": check_tilelang}


@pytest.mark.full
@pytest.mark.parametrize("tables", [of_warps, warpgroup])
@pytest.mark.parametrize("name", CHECKS)
def test_every_slot_of_every_layout(name, tables):
    """Only copies in the lane itself have no TiledLayout."""
    for cell in tables():
        try:
            CHECKS[name](cell)
        except UsageError as error:
            assert "leads to copies within the lane" in str(error)  # noqa: PT017
            assert (name, cell.fragment.family) == ("mosaic", "wmma")


@pytest.mark.full
@pytest.mark.parametrize("name", ["cute-dsl", "mosaic"])
def test_every_slot_of_every_n(name):
    for cell in every_n():
        CHECKS[name](cell)


def test_cute_dsl_says_metadata_that_every_lane_holds():
    for cell in (one for one in CELLS if None not in one.table.cells):
        layout = emitted("cute-dsl", cell)[cell_identifier(cell)]()
        assert [layout((t, i)) for t, i, *_ in slots(cell)] == [row + 16 * col for *_, row, col, _ in slots(cell)]


@pytest.mark.parametrize("cell", CELLS, ids=cell_identifier)
def test_numba_builds_metadata(cell):
    scope = emitted("numba", cell)
    row, col, read, field = (scope[f"{cell_identifier(cell)}_{name}"] for name in ("row", "col", "read", "field"))
    index = drawn(cell)
    whole, fields = spread(cell, index), range(cell.fragment.elements)
    built = [
        sum(field(i, int(whole[row(lane, i), col(lane, i)])) for i in fields) if read(lane) else 0 for lane in range(32)
    ]
    assert built == expected(cell, index)


@pytest.mark.full
@pytest.mark.parametrize("name", CHECKS)
def test_many_fragments_stand_in_one_text(name):
    """Each under a name of its own, which is an identifier whatever PTX's is."""
    fragments = select("mma*", "wmma*.d.*", "wgmma.mma_async*m64n24*.d", "ldmatrix*.d", "movmatrix*")
    cells = [cell for cell in emittable(fragments, "sm_90", RESULTS)[0] if cell.fragment.role in WHOLE]
    scope = stand_ins.run(emit.emit(name, cells))
    assert len(cells) > 600
    assert all(any(known.startswith(cell_identifier(cell)) for known in scope) for cell in cells[::20])


def test_tilelang_fragments_replicate_over_threads_alone():
    """Copies in the lane itself have no T.Fragment; of those in other lanes the index is the same."""
    within = []
    for cell in of_warps():
        scope = emitted("tilelang", cell)
        if f"{cell_identifier(cell)}_fragment" not in scope:
            within.append(cell.fragment.id)
            continue
        fragment = scope[f"{cell_identifier(cell)}_fragment"]()
        assert fragment.replicate == max(cell.table.copies)
        assert fragment.shape[-2:] == [cell.fragment.rows, cell.fragment.cols]
        assert fragment.forward_index_fn.__code__.co_argcount == len(fragment.shape)
    assert within
    assert all(name.startswith("wmma.") for name in within)


def test_mosaic_has_jaxs_own_layouts():
    """WGMMA_LAYOUT of JAX 0.10.2 is D of each N and A of 16 bits, WGMMA_LAYOUT_8BIT A of 8 bits."""
    wgmma = ((64, 8), (16, 8), (8, 8), (2,))
    cells = [*every_n(), load("wgmma.m64n8k16.f32.f16.f16.a"), load("wgmma.m64n8k32.s32.s8.s8.a")]
    *halves, byte = (emitted("mosaic", cell)[cell_identifier(cell)].tiling.tiles for cell in cells)
    assert set(halves) == {wgmma}
    assert byte == ((64, 16), (16, 16), (8, 16), (4,))


# layouts that nobody has


BASES = (
    ("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90"),
    ("mma.m8n8k4.row.col.f32.f16.f16.f32.d", "sm_90"),
    ("mma.m8n8k4.row.col.f64.f64.f64.f64.b", "sm_90"),
    ("wmma.m16n16k16.a.row.f16", "sm_70"),
    ("wgmma.m64n16k16.f32.f16.f16.d", "sm_90"),
)


@st.composite
def strange(draw):
    """A fragment whose bits of lane and i are exchanged, and some of them XORed with others."""
    cell = load(*draw(st.sampled_from(BASES)))
    bits = cell.table.points.bit_length() - 1
    images = [1 << bit for bit in draw(st.permutations(range(bits)))]
    for one, other in draw(st.lists(st.tuples(*[st.integers(0, bits - 1)] * 2), max_size=3)):
        images[one] ^= images[other] if one != other else 0
    columns = {name: tuple(column[at] for at in linear.span_gf2(images)) for name, column in cell.table.values.items()}
    return with_table(cell, cell.table.with_values(columns))


@pytest.mark.full
@pytest.mark.parametrize("name", CHECKS)
@given(cell=strange())
def test_any_linear_layout_is_said_or_refused(name, cell):
    """Where a text comes, each slot of it is right; XOR has no shape:stride and no TiledLayout."""
    try:
        CHECKS[name](cell)
    except UsageError as error:
        assert name in ("cute-dsl", "mosaic")
        assert cell.fragment.id in str(error)  # noqa: PT017


# what formats have words for

EXAMPLES = {
    "copies": ("wmma.mma.row.col.m16n16k16.f32.f32", "a"),
    "products": ("mma.m8n8k4.row.col.f32.f16.f16.f32", "d"),
    "warpgroups": ("wgmma.mma_async.m64n32k16.f32.f16.f16", "d"),
    "odd sizes": ("wgmma.mma_async.m64n24k16.f32.f16.f16", "d"),
    "metadata": ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32", "e"),
    "addresses": ("ldmatrix.m8n8.x4.shared.b16", "address"),
}
PARTLY = {  # what a word in place of an x means
    "of all lanes": ("mma.sp.m16n8k64.row.col.f32.e4m3.e5m2.f32", "e", "sm_90"),
    "in other lanes": ("wmma.mma.row.col.m16n16k16.f32.f32", "a", "sm_70"),
}


def said(name, instruction, operand, device):
    """Whether a format writes a fragment, or its whole instruction."""
    every = {o: selections(one)[0] for o, one in operands(resolve(instruction).instruction, device, RESULTS).items()}
    for cells in ([every[operand]], list(every.values())):
        with suppress(UsageError):
            return bool(emit.emit(name, cells))
    return False


@pytest.mark.full
def test_the_documentation_says_what_formats_have_words_for():
    text = (Path(__file__).parent.parent / "docs" / "formats.md").read_text("utf-8")
    head, _, *rows = re.search(r"^\| format \| copies .*\n(?:\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    columns = [cell.strip() for cell in head.split("|")[2:-1]]
    assert columns == list(EXAMPLES)
    marks = {name: row.split("|")[2:-1] for row in rows for name in row.split("|")[1].strip().split(", ")}
    assert sorted(marks) == sorted(emit.names())
    for name, cells in marks.items():
        for column, mark in zip(columns, (cell.strip() for cell in cells), strict=True):
            assert said(name, *EXAMPLES[column], "sm_90") == (mark == "x"), (name, column)
            assert mark in ("", "x") or said(name, *PARTLY[mark]), (name, column)


# what a format cannot say, with the reason


def crossed():
    """D with the bits of i exchanged, so that its registers count columns the wrong way round."""
    cell = load("wgmma.mma_async.m64n32k16.f32.f16.f16.d")
    order = [i & 3 | (i & 4) << 1 | (i & 8) >> 1 for i in range(16)]
    values = {name: tuple(v[t * 16 + i] for t in range(128) for i in order) for name, v in cell.table.values.items()}
    return with_table(cell, cell.table.with_values(values))


def slanted():
    """D in which a bit of the lane moves row and column at once."""
    cell = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    rows, cols = cell.table.values["row"], cell.table.values["col"]
    return with_table(
        cell, slot_table(32, 4, {"row": tuple(r ^ c >> 2 for r, c in zip(rows, cols, strict=True)), "col": cols})
    )


def crooked():
    """D with rows 0 and 8 of some columns exchanged: a bit of the row is a product of bits."""
    cell = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    columns = {"row": tuple(row ^ 8 * (col & 3 == 3) for row, col in cell.table.cells), "col": cell.table.values["col"]}
    return with_table(cell, slot_table(32, 4, columns))


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("cute-dsl", scrambled, r"needs XOR, and strides only add: col = "),
        ("cute-dsl", nonlinear, "not linear: 2 slots contradict: lane 1 i 1: linear"),
        ("cute-dsl", lambda: CELLS[1], "read from 8 of 32 lanes under selector 1"),
        ("numba", nonlinear, "closed form"),
        ("tilelang", lambda: CELLS[1], "cannot express the metadata"),
        ("tilelang", nonlinear, "closed form"),
        ("tilelang", crooked, "is not linear, and no sum of // and % expresses that: row = "),
        ("mosaic", nonlinear, "not linear"),
        ("mosaic", crossed, "a higher bit of i is a lower bit of the same axis"),
        ("mosaic", slanted, "bit 1 of lane moves row by 1 and col by 4"),
        ("mosaic", lambda: load("wmma.m16n16k16.a.row.f16"), "bit 3 of i leads to copies within the lane"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(name, cell, words):
    with pytest.raises(UsageError, match=words):
        emit.emit(name, [cell()])


def test_tilelang_writes_xor_where_it_is_needed():
    """But no T.Fragment: its thread would have no extent."""
    cell = scrambled()
    assert "# no T.Fragment: tilelang finds no extent" in emit.emit("tilelang", [cell])
    function = emitted("tilelang", cell)[cell_identifier(cell)]
    assert all(function(thread, i) == (row, col) for thread, i, row, col, _ in slots(cell))
