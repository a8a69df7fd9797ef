"""Tensor memory cell by cell against CuTe DSL, whose layouts are made on the CPU: every M, N and shape that it has.

Where CuTe says otherwise, tcprobe names it as saying otherwise: that statement is compared, and the answer must differ.
The counts of cells are pinned: a comparison of nothing would agree.
"""

from collections import Counter
from itertools import product

import cute_dsl
import numpy as np
import pytest

from tcprobe.ask.tensor_memory import OperandVariant, operand, placement
from tcprobe.isa import inventory
from tcprobe.references.cute import MEMORY_ATOMS, tensor_memory_table

pytestmark = pytest.mark.consumer
CELL, LANES = 32, 128
LANE = 1 << 16  # CuTe's address of tensor memory: lanes from bit 16 on, cells below
ROWS = {row.id: row for row in inventory.instructions().values() if row.id.startswith("tcgen05.mma")}
# cells compared, all without an unexplained difference: D and A by layout, scales by data path, loads, copies
COUNTED = {
    "multiplies": {
        "d A": 4227072,
        "d B": 1818624,
        "d C": 294912,
        "d D": 4083712,
        "d F": 1492992,
        "a A": 75776,
        "a B": 63488,
        "a C": 12288,
        "a D": 37888,
        "a F": 8704,
    },
    "scales": {"scale_a 4x1": 43008, "scale_b 4x1": 53760, "scale_b 2x2": 10752},
    "moves": {
        "Ld 32x32b": 8160,
        "St 32x32b": 8160,
        "LdRed 32x32b": 8128,
        "Ld 16x64b": 8160,
        "St 16x64b": 8160,
        "Ld 16x32bx2": 8160,
        "St 16x32bx2": 8160,
        "LdRed 16x32bx2": 8128,
        "Ld 16x128b": 8128,
        "St 16x128b": 8128,
        "Ld 16x256b": 8064,
        "St 16x256b": 8064,
    },
}


@pytest.fixture
def cute(monkeypatch):
    """CuTe DSL for sm_100a."""
    return cute_dsl.for_arch(monkeypatch, "sm_100a")


def flat(shape, stride):
    """All values of a mode, its first part fastest."""
    if isinstance(shape, tuple):
        values = np.zeros(1, np.int64)
        for part, step in zip(shape, stride, strict=True):
            values = (values[None, :] + flat(part, step)[:, None]).ravel()
        return values
    return np.arange(int(shape), dtype=np.int64) * int(stride)


def grid(rows, cols):
    """Addresses by (row, col) of two modes, each (shape, stride)."""
    return flat(*rows)[:, None] + flat(*cols)[None, :]


def first_mode(layout):
    """Addresses of (row, col) of what one multiply takes."""
    return grid(*zip(layout.shape[0], layout.stride[0], strict=True))


def addresses(said, cta, ctas, which=0):
    """CuTe's address, in elements, of the first place, or another, of a CTA's rows of a statement."""
    rows = range(cta * said.rows // ctas, (cta + 1) * said.rows // ctas)
    places = [[said.holding(row, col)[which] for col in range(said.cols)] for row in rows]
    assert all(place.cta == cta for line in places for place in line)
    per_cell = CELL // said.bits
    return np.array([[(p.lane * LANE + p.column) * per_cell + p.bit // said.bits for p in line] for line in places])


def operation(row, m, n, a_in):
    """CuTe DSL's multiply; None where it has none: .ws, scales of sparse ones, and i8, tf32 of sparse ones."""
    import cutlass
    from cutlass.base_dsl.common import DSLUserCodeError
    from cutlass.cute.nvgpu import OperandMajorMode, tcgen05, warp

    e4m3, f16, f32, k = cutlass.Float8E4M3FN, cutlass.Float16, cutlass.Float32, OperandMajorMode.K
    size = (m, n, row.shape.k)
    group = tcgen05.CtaGroup.TWO if "cta_group::2" in row.id else tcgen05.CtaGroup.ONE
    how = (size, group, getattr(tcgen05.OperandSource, a_in))
    if ".ws" in row.id:
        return None
    if ".sp" in row.id:
        sparse = (k, k, next(iter(warp.mma.SparseMetadataFormat)))
        makers = {
            "f16": lambda: tcgen05.MmaF16BF16SparseOp(f16, f32, *how, *sparse),
            "f8f6f4": lambda: tcgen05.MmaFP8SparseOp(e4m3, f32, *how, *sparse),
        }
    else:
        makers = {
            "f16": lambda: tcgen05.MmaF16BF16Op(f16, f32, *how, k, k),
            "tf32": lambda: tcgen05.MmaTF32Op(*how, k, k),
            "f8f6f4": lambda: tcgen05.MmaF8F6F4Op(e4m3, e4m3, f32, *how, k, k),
            "i8": lambda: tcgen05.MmaI8Op(cutlass.Int8, *how, k, k),
            "mxf8f6f4": lambda: tcgen05.MmaMXF8F6F4Op(e4m3, e4m3, *how, k, k),
            "mxf4": lambda: tcgen05.MmaMXF4Op(*how),
            "mxf4nvf4": lambda: tcgen05.MmaMXF4NVF4Op(e4m3, *how),
        }
    if row.kind not in makers or row.shape.k == 96:
        return None
    try:
        return makers[row.kind]()
    except DSLUserCodeError:  # N that PTX has and CuTe leaves out: of M 128 every other 8
        return None


def on_the_cpu(cute, function):
    """Run what makes layouts, which exist inside `cute.jit` only."""

    @cute.jit
    def evaluate():
        function()

    evaluate()


def same(said, made, ctas):
    """Whether CuTe's addresses of a CTA are what a statement says of each, of all copies where it has them as rows."""
    rows = said.rows // ctas
    copies = [made[at : at + rows] for at in range(0, made.shape[0], rows)]
    return all(
        len(copies) == len(said.holding(0, 0)) and (addresses(said, cta, ctas, which) == copy).all()
        for cta in range(ctas)
        for which, copy in enumerate(copies)
    )


def agree(found, name, made, ctas, in_memory):
    """Count cells that agree with the last statement but TVM's; one before, PTX's, is not CuTe's."""
    *others, last = [said for said in in_memory.statements if "TVM" not in said.source]
    assert not any(same(said, made, ctas) for said in others), in_memory.operand.id
    assert same(last, made, ctas), (in_memory.operand.id, in_memory.m, in_memory.n)
    found[f"{name} {in_memory.letter}"] += ctas * made.size


def test_accumulators_and_factors(cute):
    """D of every M and N that CuTe DSL has, A where it is in tensor memory."""
    found = Counter()

    def compare():
        for row in ROWS.values():
            for m, n in product(row.stated["m_values"], row.stated["n_values"]):
                for name, a_in in (("d", "SMEM"), ("a", "TMEM")):
                    chosen = operation(row, m, n, a_in) if name == "d" or n == 64 else None
                    if chosen is not None:
                        at = fragment(cute.make_tiled_mma(chosen), row, (m, n), name)
                        in_memory = placement(operand(f"{row.id}.{name}"), OperandVariant(m, n))
                        agree(found, name, at, 1 + ("cta_group::2" in row.id), in_memory)

    on_the_cpu(cute, compare)
    assert dict(found) == COUNTED["multiplies"]


def fragment(tiled, row, size, name):
    """Addresses of D, or of A, of which CuTe lays out k of the dense matrix."""
    if name == "d":
        return first_mode(tiled.make_fragment_C(tiled.partition_shape_C(size)).layout)
    at = first_mode(tiled.make_fragment_A(tiled.partition_shape_A((size[0], row.shape.k))).layout)
    return at[:, : at.shape[1] // 2] if ".sp" in row.id else at


def test_scales(cute):
    """Of A and B, 1X, 2X and 4X, by the layouts that CuTe DSL makes for a tile of them."""
    from cutlass.utils import blockscaled_layout

    found = Counter()

    def compare():
        for row in (row for row in ROWS.values() if row.kind in ("mxf8f6f4", "mxf4", "mxf4nvf4")):
            for m, n in product(row.stated["m_values"], row.stated["n_values"]):
                chosen = operation(row, m, n, "SMEM") if n % 64 == 0 else None
                if chosen is None:
                    continue
                tiled, vector = cute.make_tiled_mma(chosen), 4 if row.kind == "mxf4nvf4" else row.shape.k // 32
                per_scale, tile = row.shape.k // vector, (m, n, 4 * row.shape.k)
                for name, short in (("scale_a", "sfa"), ("scale_b", "sfb")):
                    if (m, "cta_group::2" in row.id) == (128, True) and (name == "scale_a" or n % 128):
                        continue  # CuTe's helper fills a tile up to 128, of which a CTA, or a half of N, has 64 here
                    shared = getattr(blockscaled_layout, f"make_smem_layout_{short}")(tiled, tile, per_scale, 1)
                    shared = cute.slice_(shared, (None, None, None, 0))
                    made = getattr(blockscaled_layout, f"make_tmem_layout_{short}")(tiled, tile, per_scale, shared)
                    in_memory = placement(operand(f"{row.id}.{name}"), OperandVariant(m, n, 0, vector))
                    scales(found, name, made, in_memory, 1 + ("cta_group::2" in row.id))

    on_the_cpu(cute, compare)
    assert dict(found) == COUNTED["scales"]


def scales(found, name, made, in_memory, ctas):
    """Every copy of each scale: CuTe's lines, then copies; its bytes are elements of 8 bits, four a cell."""
    *others, said = in_memory.statements
    (lines, steps), (inside, scale_steps) = zip(made.shape[0], made.stride[0], strict=True)
    of_b = name == "scale_b"
    count, vector = (said.cols, said.rows) if of_b else (said.rows // ctas, said.cols)
    line, number = flat(lines, steps), flat(inside[1], scale_steps[1])
    for cta, at, v in product(range(ctas), range(count), range(vector)):
        element = (v, at) if of_b else (cta * count + at, v)
        want = {
            place.lane * LANE * 4 + place.column * 4 + place.bit // 8
            for place in said.holding(*element)
            if place.cta == cta
        }
        assert want == {int(x + number[v]) for x in copies_of(line, lines, at)}, element
        found[f"{name} {'2x2' if others else '4x1'}"] += len(want)
    for other in others:
        assert any(
            other.holding(*element) != said.holding(*element) for element in product(range(vector), range(count))
        )


def copies_of(line, lines, at):
    """Addresses of all copies of a line: the last part of CuTe's mode counts them."""
    size = line.size // int(lines[-1])
    return [line[at + size * copy] for copy in range(int(lines[-1]))]


def test_loads_stores_and_reductions(cute):
    """Every register of every shape and repetition: CuTe's thread and value to the word of the piece."""
    import cutlass
    from cutlass.cute.nvgpu import tcgen05

    found = Counter()

    def compare():
        for shape, op in product(MEMORY_ATOMS, ("Ld", "St", "LdRed")):
            listed = inventory.instructions().get(f"tcgen05.{op.lower().replace('red', '.red')}.{shape}")
            for number in listed.stated["num"] if listed else ():
                made = getattr(tcgen05, f"{op}{shape}Op")(getattr(tcgen05.Repetition, f"x{number}"))
                atom = cute.make_copy_atom(made, cutlass.Float32)
                layout = atom.layout_src_tv if op == "St" else atom.layout_dst_tv
                registers(found, op, shape, number, grid(*zip(layout.shape, layout.stride, strict=True)))

    on_the_cpu(cute, compare)
    assert dict(found) == COUNTED["moves"]


def registers(found, op, shape, number, words):
    """CuTe numbers the words of a piece row by row."""
    table = tensor_memory_table(shape, number)
    row, col = (np.array(table.values[name]).reshape(table.threads, -1) for name in ("row", "col"))
    assert (words == row * table.extent["col"] + col).all(), (op, shape, number)
    found[f"{op} {shape}"] += words.size
