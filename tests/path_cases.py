"""Paths that run on a GPU: generated headers, a kernel around each, and what NumPy says must come out.

A kernel of one warp fills shared memory, loads the registers and writes them out as they are, each lane's in a row; or
it takes registers, stores and drains them. With k steps it loads the registers once more, step by step.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from tcprobe.ask.path.code import name as namespace
from tcprobe.ask.path.code import source
from tcprobe.ask.path.plan import PathOptions, plan_path, request
from tcprobe.ask.path.steps import BoxCopy
from tcprobe.isa.operand import Role
from tcprobe.store.cell import load

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
BF16 = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
HALF = "mma.m16n8k16.row.col.f16.f16.f16.f16"
TF32 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32"
S8 = "mma.m16n8k32.row.col.s32.s8.s8.s32"
E4M3 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WG = "wgmma.mma_async.m64n32k16"
F64 = "mma.m16n8k8.row.col.f64.f64.f64.f64"


class Case(NamedTuple):
    """What `tcprobe path` is asked."""

    fragment: str
    size: str
    major: str = "row"
    shared: str = "plain"
    access: str | None = None
    ld: int | None = None
    fill: str | None = None

    @property
    def options(self):
        return self[1:]

    def __str__(self):
        return "-".join(str(part) for part in self if part is not None)


CASES = (
    # A and B of 16 bits by ldmatrix: majors, swizzles, padding, gaps, numbers of matrices, fills
    Case(F16 + ".a", "64x64", "row", "sw:3,4,3", "ldmatrix.x4"),
    Case(F16 + ".a", "64x64", "col", "sw:3,4,3", "ldmatrix.x4.trans"),
    Case(F16 + ".b", "64x64", "col", "sw:3,4,3", "ldmatrix.x4"),
    Case(F16 + ".b", "64x64", "row", "sw:3,4,3", "ldmatrix.x4.trans"),
    Case(F16 + ".a", "64x64", "row", "plain", "ldmatrix.x4", 72),
    Case(F16 + ".a", "64x32", "row", "sw:2,4,3", "ldmatrix.x2", 100),
    Case(F16 + ".a", "64x128", "row", "sw:3,4,4", "ldmatrix.x4"),
    Case(F16 + ".a", "64x128", "row", "SWIZZLE_128B", "ldmatrix.x4"),
    Case(F16 + ".b", "64x128", "row", "boxes:64", "ldmatrix.x2.trans"),
    Case(F16 + ".a", "64x32", "row", "128", "ldmatrix.x4"),
    Case(F16 + ".b", "32x24", "col", "pad:16", "ldmatrix.x1"),
    Case(F16 + ".a", "48x48", "row", "pad:16", "ldmatrix.x4", 66, "cp.async.4"),
    Case(F16 + ".b", "48x80", "row", "sw:1,4,3", "ldmatrix.x2.trans", 81, "plain"),
    Case(BF16 + ".a", "64x64", "row", "SWIZZLE_128B", "ldmatrix.x4", 80, "plain"),
    Case(BF16 + ".b", "64x16", "col", "SWIZZLE_64B", "ldmatrix.x2", 96),
    Case(BF16 + ".b", "16x64", "row", "pad:32", "ldmatrix.x4.trans", 100, "cp.async.8"),
    # lane by lane
    Case(F16 + ".a", "64x64", "row", "pad:8", "ld.shared.b32"),
    Case(F16 + ".a", "32x32", "col", "pad:2", "ld.shared.b16", 33, "plain"),
    Case(F16 + ".b", "32x32", "col", "sw:2,3,3", "ld.shared.b32"),
    # tf32, whose transposition no matrix load brings
    Case(TF32 + ".a", "64x32", "row", "sw:3,4,3", "ldmatrix.x4"),
    Case(TF32 + ".b", "32x64", "col", "SWIZZLE_128B", "ldmatrix.x2"),
    Case(TF32 + ".a", "32x32", "col", "pad:32", "ld.shared.b32"),
    Case(TF32 + ".b", "32x40", "row", "pad:4", "ld.shared.b32", 42),
    Case(TF32 + ".a", "32x32", "row", "sw:5,2,5", "ld.shared.b32"),
    # 8 bits
    Case(S8 + ".a", "64x128", "row", "sw:3,4,3", "ldmatrix.x4"),
    Case(S8 + ".b", "64x64", "col", "sw:2,4,3", "ldmatrix.x4", 80),
    Case(S8 + ".b", "64x64", "row", "plain", "ld.shared.b8"),
    Case(S8 + ".a", "32x64", "col", "pad:4", "ld.shared.b8", 36),
    Case(E4M3 + ".a", "32x64", "row", "SWIZZLE_64B", "ldmatrix.x4"),
    Case(E4M3 + ".b", "32x32", "col", "pad:16", "ldmatrix.x2"),
    Case(E4M3 + ".b", "64x48", "col", "plain", "ld.shared.b32", 67, "plain"),
    # f64
    Case(F64 + ".a", "32x16", "row", "sw:2,4,3", "ld.shared.b64"),
    Case(F64 + ".b", "16x32", "row", "pad:32", "ld.shared.b64", 36),
    Case(F64 + ".b", "16x32", "col", "plain", "ld.shared.b64", 17, "plain"),
    # an accumulator in, and results back
    Case(F16 + ".c", "64x32", "row", "sw:2,5,2", "ld.shared.b64"),
    Case(F16 + ".d", "64x32", "row", "sw:2,5,2", "st.shared.v2"),
    Case(F16 + ".d", "64x32", "row", "pad:32", "st.shared.b64", 40),
    Case(F16 + ".d", "32x32", "col", "pad:16", "st.shared.b32"),
    Case(F16 + ".d", "48x40", "row", "pad:4", "st.shared.b32", 43),
    Case(HALF + ".d", "64x64", "row", "sw:3,4,3", "stmatrix.x4"),
    Case(HALF + ".d", "64x64", "col", "sw:3,4,3", "stmatrix.x4.trans", 72),
    Case(HALF + ".d", "32x24", "row", "pad:16", "stmatrix.x2"),
    Case(HALF + ".d", "32x24", "col", "pad:16", "stmatrix.x1.trans"),
    Case(HALF + ".d", "32x32", "col", "pad:4", "st.shared.b16", 34),
    Case(S8 + ".d", "32x32", "row", "sw:2,5,2", "st.shared.b64"),
    Case(F64 + ".d", "32x16", "row", "sw:2,4,3", "st.shared.b128", 18),
    # by tensor maps
    Case(F16 + ".a", "64x64", "row", "SWIZZLE_128B", "ldmatrix.x4", 80, "tma"),
    Case(F16 + ".b", "32x64", "col", "SWIZZLE_64B", "ldmatrix.x4", None, "tma"),
    Case(F16 + ".b", "64x16", "row", "SWIZZLE_32B", "ldmatrix.x4.trans", 24, "tma"),
    Case(F16 + ".a", "16x128", "row", "SWIZZLE_128B", "ldmatrix.x4", None, "tma"),
    Case(S8 + ".a", "64x96", "row", "plain", "ldmatrix.x4", 112, "tma"),
    Case(TF32 + ".a", "32x32", "row", "SWIZZLE_128B", "ldmatrix.x4", 36, "tma"),
    Case(F64 + ".b", "16x16", "col", "SWIZZLE_128B", "ld.shared.b64", None, "tma"),
    Case(HALF + ".d", "64x64", "row", "SWIZZLE_128B", "stmatrix.x4", 72, "tma"),
    Case(F16 + ".d", "64x32", "row", "SWIZZLE_128B", "st.shared.b64", None, "tma"),
    # registers of a warpgroup
    Case(WG + ".f32.bf16.bf16.d", "64x32", "row", "SWIZZLE_128B", "st.shared.b64", 36),
    Case(WG + ".f32.bf16.bf16.d", "128x64", "col", "pad:16", "st.shared.b32"),
    Case(WG + ".f16.f16.f16.d", "64x64", "row", "SWIZZLE_128B", "stmatrix.x4", None, "tma"),
    Case(WG + ".f16.f16.f16.d", "128x32", "col", "sw:3,4,3", "stmatrix.x4.trans"),
    Case("wgmma.mma_async.m64n8k16.f16.f16.f16.d", "64x16", "row", "sw:1,4,3", "stmatrix.x2"),
    Case(WG + ".f32.bf16.bf16.a", "128x64", "row", "sw:3,4,3", "ldmatrix.x4"),
    Case("wgmma.mma_async.m64n32k32.f32.e4m3.e4m3.a", "64x64", "row", "SWIZZLE_64B", "ldmatrix.x2"),
)

BEGIN = """
  __shared__ __align__(1024) unsigned char raw[{space}::BYTES + {space}::ALIGNMENT];
  const unsigned lane = threadIdx.x, least = static_cast<unsigned>(__cvta_generic_to_shared(raw));
  const unsigned shared = (least + {space}::ALIGNMENT - 1) / {space}::ALIGNMENT * {space}::ALIGNMENT;
"""
MAP = '  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map) : "memory");\n'
FILL = {
    "cp.async": "  {space}::fill(shared, given, lane, {space}::THREADS);\n"
    '  asm volatile("cp.async.wait_all;" : : : "memory");\n',
    "plain": "  {space}::fill(shared, given, lane, {space}::THREADS);\n",
    "tma": MAP
    + """
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (lane == 0) {{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(at), "r"({bytes}) : "memory");
    {space}::fill(shared, map, at, 0, 0);
  }}
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}}"
                 : "=r"(done) : "r"(at) : "memory");
""",
}
DRAIN = {
    "plain": "  {space}::drain(shared, made, lane, {space}::THREADS);\n",
    "tma": '  asm volatile("fence.proxy.async;" : : : "memory");\n  __syncthreads();\n'
    + MAP
    + """
  if (lane == 0) {{
    {space}::drain(shared, map, 0, 0);
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
  }}
""",
}
LOAD = (
    """
extern "C" __global__ void {kernel}(const unsigned char* given, const void* map, {space}::Word* made) {{
"""
    + BEGIN
    + """{move}  __syncthreads();
  {space}::Word registers[{space}::REGISTERS];
  {space}::load(shared, lane, registers);
#pragma unroll
  for (int j = 0; j < {space}::REGISTERS; ++j) made[lane * {space}::REGISTERS + j] = registers[j];
{again}}}
"""
)
STEPS = """
  made += {space}::THREADS * {space}::REGISTERS;
#pragma unroll
  for (unsigned k = 0; k < {space}::STEPS; ++k) {{
    {space}::Word part[{space}::STEP_REGISTERS];
    {space}::load_k(shared, lane, k, part);
#pragma unroll
    for (int j = 0; j < {space}::STEP_REGISTERS; ++j)
      made[lane * {space}::REGISTERS + k * {space}::STEP_REGISTERS + j] = part[j];
  }}
"""
STORE = (
    """
extern "C" __global__ void {kernel}(const {space}::Word* given, const void* map, unsigned char* made) {{
"""
    + BEGIN
    + """
  {space}::Word registers[{space}::REGISTERS];
#pragma unroll
  for (int j = 0; j < {space}::REGISTERS; ++j) registers[j] = given[lane * {space}::REGISTERS + j];
  {space}::store(shared, lane, registers);
  __syncthreads();
{move}}}
"""
)


@cache
def plan(case):
    return plan_path(request(load(case.fragment, "sm_90"), PathOptions(*case.options)))


def kernel(number):
    return f"path_case_{number}"


@cache
def program(number):
    """The header of a case, and the kernel around it."""
    found, case = plan(CASES[number]), CASES[number]
    header, space = source(found), namespace(found)
    tile, loads = found.request.tile, found.request.loads
    words = {"kernel": kernel(number), "space": space, "bytes": tile.lines * tile.line_bytes}
    move = (FILL if loads else DRAIN)[found.request.fill_kind].format(**words)
    again = STEPS.format(**words) if "load_k" in header else ""
    assert case.fill is None or case.fill.startswith(found.request.fill_kind)
    return header + (LOAD if loads else STORE).format(move=move, again=again, **words)


def sources():
    return [program(number) for number in range(len(CASES))]


def chunks(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


class Data(NamedTuple):
    """Global memory with gaps that hold 0, and all lanes' registers; of bytes."""

    image: np.ndarray
    registers: np.ndarray


def data(case, seed):
    """A random matrix in memory, and the registers that hold it by the fragment's table alone; whole bytes."""
    found, rng = plan(case), np.random.default_rng(seed)
    tile, cell, size = found.request.tile, found.request.cell, found.request.tile.bits // 8
    matrix = rng.integers(1, 256, (tile.rows, tile.cols, size), np.uint8)
    lines = matrix if tile.contiguous == "row" else matrix.swapaxes(0, 1)
    image = np.zeros((tile.lines, found.request.ld, size), np.uint8)
    image[:, : tile.length] = lines
    row, col = (np.array(cell.table.values[name]).reshape(cell.table.threads, -1) for name in ("row", "col"))
    held = [matrix[down + row, right + col] for down, right in order(found)]
    return Data(image.ravel(), np.ascontiguousarray(np.stack(held, axis=1)).ravel())


def threads(case):
    return plan(case).request.cell.table.threads


def order(found):
    """The fragments that cover the tile, k outermost."""
    fragment, tile = found.request.cell.fragment, found.request.tile
    downs, rights = range(0, tile.rows, fragment.rows), range(0, tile.cols, fragment.cols)
    if fragment.operand == "a" and fragment.role is Role.FACTOR:
        return [(down, right) for right in rights for down in downs]
    return [(down, right) for down in downs for right in rights]


def by_tensor_map(case):
    return plan(case).transfer if isinstance(plan(case).transfer, BoxCopy) else None
