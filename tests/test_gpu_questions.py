"""On a live GPU: the emitted header feeds every multiply, and conversions bring every element to its place."""

import json
from pathlib import Path

import numpy as np
import pytest

from tcprobe import emit
from tcprobe.ask.convert import convert
from tcprobe.ask.convert.casts import CASTS
from tcprobe.ask.reduce import reduce
from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.names import resolve, select
from tcprobe.run import multiplicands, verify
from tcprobe.run.gpu import Gpu
from tcprobe.store.cell import for_emit, load, operands
from tcprobe.store.results import published

pytestmark = pytest.mark.gpu
EXAMPLES = json.loads((Path(__file__).parent / "data" / "worked_examples.json").read_text())["examples"]
RESULTS = published()


@pytest.fixture(scope="module")
def gpu():
    found = Gpu()
    found.open(0)
    return found, arch(found.devices()[0].arch)


def test_every_multiply_is_exact_through_the_header(gpu):
    device, row = gpu
    todo = [
        (i, operands(i, row.name, RESULTS))
        for i in inventory.executed_by(32)
        if i.multiplies and i.target.on(row) and not i.metadata
    ]
    assert len(todo) > 100
    for found in verify.verify(device, todo, seed=7):
        assert found.exact, (found.instruction.id, found.first)
        assert found.noticed, found.instruction.id
        assert found.expected in (None, found.unread), found


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["instruction"] + e["note"][:12])
def test_worked_examples_are_reproduced(gpu, example):
    device, row = gpu
    instruction = resolve(example["instruction"]).instruction
    tables = operands(instruction, row.name, RESULTS)
    a, b = (np.repeat(np.array(example[o])[None], instruction.products, axis=0) for o in "ab")
    c = np.zeros((instruction.products, instruction.shape.m, instruction.shape.n), np.int64)
    (case,) = verify.cases(instruction, tables)
    verify.compile_cases(device, [case])
    found = verify.check(device, case, multiplicands.Multiplicands(a, b, c))
    assert found.exact, found.first
    assert (multiplicands.product(instruction, multiplicands.Multiplicands(a, b, c))[0] == np.array(example["d"])).all()


CASES = [
    ("mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", False),
    ("mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", True),
    ("mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.b", False),
    ("mma.m16n8k16.row.col.f32.bf16.bf16.f32.d", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a", False),
    ("mma.m16n8k8.row.col.f32.tf32.tf32.f32.d", "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", False),
    ("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.d", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a", False),
    ("mma.m16n8k32.row.col.f32.e5m2.e5m2.f32.d", "mma.m16n8k32.row.col.f32.e5m2.e5m2.f32.b", False),
    ("mma.m16n8k16.row.col.f16.f16.f16.f16.d", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a", False),
    ("mma.m16n8k16.row.col.f16.f16.f16.f16.d", "mma.m16n8k16.row.col.f16.f16.f16.f16.a", False),
    ("mma.m16n8k32.row.col.s32.s8.s8.s32.d", "mma.m16n8k32.row.col.s32.s8.s8.s32.a", False),
    ("mma.m16n8k32.row.col.s32.u8.u8.s32.d", "mma.m16n8k32.row.col.s32.u8.u8.s32.b", True),
    ("wmma.m16n16k16.d.f32", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", False),
    ("wmma.m16n16k16.d.f32", "wmma.m8n32k16.a.row.f16", False),
    ("wmma.m16n16k16.a.row.f16", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", False),
    ("mma.m16n8k64.row.col.s32.s4.s4.s32.a", "mma.m16n8k32.row.col.s32.s4.s4.s32.a", False),
    ("mma.m16n8k16.row.col.f64.f64.f64.f64.d", "mma.m16n8k16.row.col.f64.f64.f64.f64.a", False),
    ("mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a", "mma.m16n8k128.row.col.s32.b1.b1.s32.and.popc.a", False),
]

KERNEL = """
extern "C" __global__ void turn(const u64* given, u64* made) {{
  {word} packed[{sources}][{f}::registers];
  {word} result[{targets}][{t}::registers];
  for (int tile = 0; tile < {sources}; ++tile)
    gather<{f}>(threadIdx.x, given + tile * {f}::rows * {f}::cols, {f}::cols, -1, false, packed[tile]);
  convert(reinterpret_cast<const {c_type} (&)[{sources}][{count}]>(packed), result);
  for (int tile = 0; tile < {targets}; ++tile)
    scatter<{t}>(made + tile * {t}::rows * {t}::cols, result[tile]);
}}
"""


@pytest.mark.parametrize(("source", "target", "transpose"), CASES)
def test_conversions_bring_every_element_to_its_place(gpu, source, target, transpose):
    device, row = gpu
    fragments = [resolve(name).fragment for name in (source, target)]
    if not all(f.target.on(row) for f in fragments):
        pytest.skip(f"{row.name} does not have both fragments")
    to, from_ = for_emit([fragments[1], fragments[0]], row.name, RESULTS)
    try:
        found = convert(from_, to, transpose)
    except UsageError as error:
        pytest.skip(str(error))
    assert found.plan is not None
    rng = np.random.default_rng(11)
    most = 1 if fragments[0].type == "b1" else 7
    least = 0 if fragments[1].type in ("u8", "b1") else -7
    matrix = rng.integers(least, most + 1, (found.tiling.rows, found.tiling.cols))
    made = np.zeros((found.tiling.target_tiles, fragments[1].rows, fragments[1].cols), np.uint64)
    device.compile_cuda(program(found, from_, to), ["turn"])
    device.call("turn", 1, [multiplicands.patterns(cut(matrix, fragments[0]), fragments[0])], made)
    wanted = cut(matrix.T if transpose else matrix, fragments[1])
    kind = dtype(fragments[1].type)
    assert made.ravel().tolist() == [kind.pattern(v, fragments[1].slot_bits) for v in wanted.ravel().tolist()]


PERMUTED = [
    ("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.d", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"),
    ("mma.m16n8k8.row.col.f32.tf32.tf32.f32.d", "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a"),
    ("mma.m16n8k32.row.col.s32.s8.s8.s32.d", "mma.m16n8k32.row.col.s32.s8.s8.s32.a"),
]


@pytest.mark.parametrize(("source", "target"), PERMUTED)
def test_an_order_of_k_gives_the_same_product(gpu, source, target):
    """A of P in the order that spares shuffles, and B in the same order: the product of P and B."""
    device, row = gpu
    if not resolve(target).fragment.target.on(row):
        pytest.skip(f"{row.name} does not have {target}")
    from_, to = (load(name, row.name) for name in (source, target))
    found = convert(from_, to, permute_k=True)
    assert "shuffle" not in found.costs
    rng = np.random.default_rng(12)
    matrix = rng.integers(-7, 8, (found.tiling.rows, found.tiling.cols))
    made = np.zeros((found.tiling.target_tiles, to.fragment.rows, to.fragment.cols), np.uint64)
    device.compile_cuda(program(found, from_, to), ["turn"])
    device.call("turn", 1, [multiplicands.patterns(cut(matrix, from_.fragment), from_.fragment)], made)
    order, kind = list(found.tiling.order), dtype(to.fragment.type)
    number = {kind.pattern(v, to.fragment.slot_bits): v for v in range(-7, 8)}
    a = np.vectorize(number.__getitem__)(made[0].astype(np.int64))
    b = rng.integers(-7, 8, (matrix.shape[1], 8))
    assert (a @ b[order] == matrix @ b).all()


def accumulators(row):
    """A cell of every layout of a result on an arch."""
    found = {}
    for fragment in select(device=row):
        if fragment.family in ("wmma", "mma") and fragment.operand == "d":
            cell = load(fragment.id, row.name)
            found.setdefault(cell.table.id, cell)
    return list(found.values())


def around(name, size, outputs, call):
    """A kernel that hands a lane its elements and writes what a function makes."""
    return f"""
extern "C" __global__ void k_{name}(const float* given, float* made) {{
  float x[{size}], out[{outputs}];
  for (int i = 0; i < {size}; ++i) x[i] = given[threadIdx.x * {size} + i];
  {call}
  for (int i = 0; i < {outputs}; ++i) made[threadIdx.x * {outputs} + i] = out[i];
}}"""


@pytest.mark.parametrize(("axis", "op"), [("row", "max"), ("row", "sum"), ("col", "max"), ("col", "sum")])
def test_reductions_are_numpys(gpu, axis, op):
    device, row = gpu
    for cell in accumulators(row):
        found = reduce(cell, axis, op)
        size, groups = cell.table.elements, len(found.plan.groups)
        device.compile_cuda(found.code + around("r", size, groups, "reduce(x, out);"), ["k_r"])
        products = cell.fragment.products
        matrix = np.random.default_rng(5).integers(-99, 100, (products, cell.fragment.rows, cell.fragment.cols))
        given = np.array([matrix[(*e[2:], *e[:2])] if e[2:] else matrix[0][e] for e in cell.table.cells], np.float32)
        made = np.zeros((32, groups), np.float32)
        device.call("k_r", 1, [given], made)
        wanted = getattr(matrix, op)(axis=2 if axis == "row" else 1).ravel()
        assert made.tolist() == [[wanted[n] for n in rows] for rows in found.plan.rows], cell.fragment.id


CHANGES = (("row >= col", "-5"), ("row + 3 > col and not col == 2", "row * 16 - col"), (None, "row - 2 * col"))


def test_masks_and_fills_are_numpys(gpu):
    device, row = gpu
    for cell in (cell for cell in accumulators(row) if cell.fragment.products == 1):
        size = cell.table.elements
        for mask, fill in CHANGES:
            found = mask_fragment(cell, mask, fill, "m")
            call = "m(x); for (int i = 0; i < N; ++i) out[i] = x[i];".replace("N", str(size))
            device.compile_cuda(found.code + around("m", size, size, call), ["k_m"])
            given = np.arange(32 * size, dtype=np.float32)
            made = np.zeros(32 * size, np.float32)
            device.call("k_m", 1, [given], made)
            r, c = (np.array(cell.table.values[name]) for name in ("row", "col"))
            other = {"-5": -5 + 0 * r, "row * 16 - col": r * 16 - c, "row - 2 * col": r - 2 * c}[fill]
            kept = {"row >= col": r >= c, None: r < 0}.get(mask, (r + 3 > c) & (c != 2))
            assert (made == np.where(kept, given, other)).all(), (cell.fragment.id, mask)


def cut(matrix, fragment):
    """Tiles of a matrix, row by row."""
    rows, cols = matrix.shape[0] // fragment.rows, matrix.shape[1] // fragment.cols
    tiles = matrix.reshape(rows, fragment.rows, cols, fragment.cols).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(tiles).reshape(-1, fragment.rows, fragment.cols)


def program(found, from_, to):
    """The header, the conversion, and a kernel around it."""
    (c_type, count) = found.code.split("convert(const ")[1].split("]>")[0].split(" (&from)")[0], None
    count = int(found.code.split("(&from)[")[1].split("][")[1].split("]")[0])
    kernel = KERNEL.format(
        word="u64" if from_.fragment.register_bits == 64 else "unsigned",
        f=f"tcprobe::{identifier(from_.fragment.id)}",
        t=f"tcprobe::{identifier(to.fragment.id)}",
        sources=found.tiling.source_tiles,
        targets=found.tiling.target_tiles,
        c_type=c_type,
        count=count,
    )
    tables = {cell.fragment.id: cell for cell in (from_, to)}
    return "\n".join([emit.emit("cuda", list(tables.values())), verify.HELPERS, found.code, kernel])


def test_every_cast_is_tried():
    tried = {tuple(resolve(name).fragment.type for name in case[:2]) for case in CASES}
    assert set(CASTS) - tried <= {("f16", "e5m2"), ("f32", "e2m1")}  # sm_90 has no conversion to e2m1
