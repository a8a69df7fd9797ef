"""Products of warpgroups by paths: A and B into shared memory by their headers, multiplied there, D back by its.

Everything that the kernel knows of layouts is in the emitted headers: it fills, asks for descriptors, stores and
drains.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from tcprobe.ask.path import code as registers_code
from tcprobe.ask.path.code import operand_source as source
from tcprobe.ask.path.operand import operand_path
from tcprobe.ask.path.plan import PathOptions, plan_path, request
from tcprobe.ask.path.steps import BoxCopy
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.names import resolve
from tcprobe.run import verify
from tcprobe.store.cell import load
from tcprobe.store.choose import alone
from tcprobe.store.results import published

THREADS = 128


class WarpgroupProduct(NamedTuple):
    """D (m x n) = A (m x k) B (k x n): majors, places and fills of A and B, major, place and store of D."""

    instruction: str
    size: tuple[int, int, int]
    a: tuple
    b: tuple
    d: tuple

    @property
    def row(self):
        return resolve(self.instruction).instruction

    def extent(self, operand):
        m, n, k = self.size
        return {"a": (m, k), "b": (k, n), "d": (m, n)}[operand]

    def plan(self, operand):
        major, placed, way = getattr(self, operand)
        size = "{}x{}".format(*self.extent(operand))
        if operand == "d":
            return plan_path(request(load(f"{self.instruction}.d", "sm_90"), PathOptions(size, major, placed, way)))
        one = resolve(f"{self.instruction}.{operand}_smem").shared_operand
        return operand_path(one, alone(published()), PathOptions(size, major, placed, fill=way))

    def __str__(self):
        return f"{self.instruction}-{'x'.join(map(str, self.size))}-{'-'.join(self.a)}-{'-'.join(self.b)}"


BF16, F16 = "wgmma.mma_async.m64n64k16.f32.bf16.bf16", "wgmma.mma_async.m64n32k16.f16.f16.f16"
E4M3, S8 = "wgmma.mma_async.m64n32k32.f32.e4m3.e4m3", "wgmma.mma_async.m64n64k32.s32.s8.s8"
TF32 = "wgmma.mma_async.m64n16k8.f32.tf32.tf32"
K128, MN128 = ("row", "SWIZZLE_128B"), ("col", "SWIZZLE_128B")  # of A; of B the other way round
PRODUCTS = (
    WarpgroupProduct(BF16, (128, 64, 64), (*K128, "tma"), (*MN128, "tma"), ("row", "sw:2,5,2", "st.shared.b64")),
    WarpgroupProduct(BF16, (64, 128, 64), (*MN128, "tma"), (*K128, "tma"), ("row", "pad:32", "st.shared.b64")),
    WarpgroupProduct(BF16, (64, 64, 128), (*K128, "cp.async"), (*K128, "cp.async"), ("col", "pad:16", "st.shared.b32")),
    WarpgroupProduct(
        BF16,
        (64, 64, 64),
        ("row", "SWIZZLE_64B", "tma"),
        ("col", "SWIZZLE_32B", "tma"),
        ("row", "plain", "st.shared.b64"),
    ),
    WarpgroupProduct(
        BF16,
        (64, 64, 32),
        ("col", "SWIZZLE_64B", "cp.async"),
        ("row", "SWIZZLE_32B", "plain"),
        ("row", "pad:8", "st.shared.b64"),
    ),
    WarpgroupProduct(
        BF16, (64, 64, 32), ("row", "plain", "tma"), ("col", "plain", "cp.async"), ("row", "pad:32", "st.shared.b64")
    ),
    WarpgroupProduct(
        BF16, (64, 64, 32), ("col", "plain", "cp.async"), ("row", "plain", "tma"), ("row", "pad:32", "st.shared.b64")
    ),
    WarpgroupProduct(F16, (64, 64, 64), (*K128, "tma"), (*MN128, "tma"), ("row", "SWIZZLE_128B", "stmatrix.x4")),
    WarpgroupProduct(
        F16,
        (128, 64, 32),
        (*MN128, "cp.async.8"),
        ("row", "SWIZZLE_64B", "plain.4"),
        ("col", "sw:3,4,3", "stmatrix.x4.trans"),
    ),
    WarpgroupProduct(E4M3, (64, 64, 128), (*K128, "tma"), (*MN128, "tma"), ("row", "sw:2,5,2", "st.shared.b64")),
    WarpgroupProduct(
        E4M3,
        (64, 32, 64),
        ("row", "SWIZZLE_64B", "cp.async"),
        ("col", "SWIZZLE_32B", "tma"),
        ("row", "plain", "st.shared.b64"),
    ),
    WarpgroupProduct(S8, (128, 64, 128), (*K128, "tma"), (*MN128, "cp.async"), ("row", "sw:2,5,2", "st.shared.b64")),
    WarpgroupProduct(
        S8, (64, 64, 64), ("row", "SWIZZLE_32B", "plain"), ("col", "plain", "tma"), ("col", "pad:16", "st.shared.b32")
    ),
    WarpgroupProduct(
        TF32, (64, 32, 32), (*K128, "tma"), ("col", "SWIZZLE_64B", "cp.async"), ("row", "pad:32", "st.shared.b64")
    ),
)

KERNEL = """
extern "C" __global__ void {kernel}(const unsigned char* in_a, const unsigned char* in_b, const void* map_a,
                                    const void* map_b, unsigned char* out) {{
  __shared__ __align__(1024) unsigned char raw[{bytes}];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned thread = threadIdx.x, shared = static_cast<unsigned>(__cvta_generic_to_shared(raw));
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (thread == 0) {{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(at), "r"({expected}) : "memory");
{boxes}  }}
{lanes}  asm volatile("cp.async.wait_all;" : : : "memory");
  asm volatile("fence.proxy.async;" : : : "memory");
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}}"
                 : "=r"(done) : "r"(at) : "memory");
  {d}::Word rd[{d}::REGISTERS] = {{}};
#pragma unroll
  for (int m = 0; m < {a}::BLOCKS; ++m)
#pragma unroll
    for (int n = 0; n < {b}::BLOCKS; ++n) {{
      {d}::Word* d = rd + (m * {b}::BLOCKS + n) * {nd};
      asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#pragma unroll
      for (int k = 0; k < {a}::STEPS; ++k)
        asm volatile("{{.reg .pred p; setp.ne.b32 p, %{scale}, 0; {text}}}"
                     : {outputs} : "l"({a}::descriptor(shared, k, m)), "l"({b}::descriptor(shared + {second}, k, n)),
                       "r"(1) : "memory");
      asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" : : : "memory");
    }}
  __syncthreads();
  {d}::store(shared, thread, rd);
  __syncthreads();
  {d}::drain(shared, out, thread, {threads});
}}
"""


def kernel(product):
    return f"warpgroup_product_{PRODUCTS.index(product)}"


def written(row, registers, transposed):
    """The multiply with its operands: %0 on are D, then the descriptors; modifiers as its type has them."""
    d = ", ".join(f"%{j}" for j in range(registers))
    bits, integer = dtype(row.described[0].held.type).bits, row.fragment("d").type == "s32"
    scales = "" if integer else ", 1, 1"
    turned = f", {transposed[0]}, {transposed[1]}" if bits == 16 else ""
    return f"{row.name} {{{d}}}, %{registers}, %{registers + 1}, p{scales}{turned};"


@cache
def plans(product):
    return {operand: product.plan(operand) for operand in "abd"}


@cache
def program(product):
    """Three headers and the kernel."""
    made, row = plans(product), product.row
    space = {o: registers_code.struct_of(p.request) for o, p in made.items()}
    registers = row.fragment("d").registers
    second = -(-made["a"].request.shared.bytes(made["a"].request.tile) // 1024) * 1024
    start = {"a": "shared", "b": f"shared + {second}"}
    boxed = {o: isinstance(made[o].transfer, BoxCopy) for o in "ab"}
    fence = '    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_{0}) : "memory");\n'
    boxes = "".join(
        fence.replace("{0}", o) + f"    {space[o]}::fill({start[o]}, map_{o}, at, 0, 0);\n" for o in "ab" if boxed[o]
    )
    lanes = "".join(f"  {space[o]}::fill({start[o]}, in_{o}, thread, {THREADS});\n" for o in "ab" if not boxed[o])
    tiles = {o: made[o].request.tile for o in "ab"}
    expected = sum(tiles[o].lines * tiles[o].line_bytes for o in "ab" if boxed[o])
    turned = [int(made[o].request.smem_tile.major == "mn") for o in "ab"]
    need = max(
        second + made["b"].request.shared.bytes(tiles["b"]), made["d"].request.shared.bytes(made["d"].request.tile)
    )
    outputs = ", ".join(f'"+r"(d[{j}])' for j in range(registers))
    return "\n".join(
        [
            source(made["a"]),
            source(made["b"]),
            registers_code.source(made["d"]),
            KERNEL.format(
                kernel=kernel(product),
                **space,
                bytes=need,
                boxes=boxes,
                lanes=lanes,
                expected=expected,
                nd=registers,
                scale=registers + 2,
                text=written(row, registers, turned),
                outputs=outputs,
                second=second,
                threads=THREADS,
            ),
        ]
    )


def operands(product, seed):
    """Small whole numbers A and B, D by NumPy, and the bytes of A and B as they lie in memory."""
    rng, (m, n, k) = np.random.default_rng(seed), product.size
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    return a @ b, *(image(product, o, v) for o, v in (("a", a), ("b", b)))


def image(product, operand, matrix):
    """Bytes of a matrix of whole numbers in global memory."""
    held = product.row.described[0].held
    kind = dtype(held.type)
    cell = {v: kind.pattern(v, held.slot_bits) for v in np.unique(matrix).tolist()}
    bits = np.vectorize(cell.get)(matrix).astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[held.slot_bits])
    return np.ascontiguousarray(bits if getattr(product, operand)[0] == "row" else bits.T).view(np.uint8).ravel()


def numbers(product, raw):
    """The numbers of D that bytes in memory mean."""
    fragment, (m, n, _) = product.row.fragment("d"), product.size
    found = verify.decode(raw.view({16: np.uint16, 32: np.uint32}[fragment.slot_bits]), fragment)
    return found.reshape(m, n) if product.d[0] == "row" else found.reshape(n, m).T
