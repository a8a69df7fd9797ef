"""A GEMM on Hopper in which every layout comes from tcprobe: TMA in, wgmma, stmatrix and TMA out.

    python examples/wgmma_gemm.py bf16          # prints the CUDA source
    python examples/wgmma_gemm.py bf16 --run    # on an H100 or H200, with CuPy: compares with NumPy

D (m x n) = A (m x k) B (k x n), k contiguous in A and B, one tile of 64 x 128 per block: bf16 into bf16, e4m3 into
f16, s8 into s8 with saturation. Only the loop, the barrier and the copies of boxes are written by hand. `tcprobe
descriptor` prints the descriptors, the steps along k, and the boxes and modes of all tensor maps; `tcprobe convert
D stmatrix --shared boxes:128` prints the code that stores D through stmatrix into shared memory, in boxes.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from tcprobe.ask import descriptor
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.isa.names import resolve
from tcprobe.references.shared_memory.tensor_map import packed_map
from tcprobe.run import driver
from tcprobe.run.multiplicands import matrix, patterns
from tcprobe.store.cell import load

M = 64
WIDTH = 128  # bytes of k in a tile: a row of the swizzle


class Gemm(NamedTuple):
    """A form, and the type that D is stored as."""

    instruction: str
    out: str


KINDS = {
    "bf16": Gemm("wgmma.mma_async.m64n128k16.f32.bf16.bf16", "bf16"),
    "e4m3": Gemm("wgmma.mma_async.m64n128k32.f32.e4m3.e4m3", "f16"),
    "s8": Gemm("wgmma.mma_async.m64n128k32.s32.s8.s8", "s8"),
}

KERNEL = """
typedef unsigned long long u64;
namespace {kind}_ {{
typedef unsigned long long uint64_t;

__device__ inline void copy(unsigned to, const void* map, unsigned barrier, int x, int y) {{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {{%2, %3}}], [%4];" : : "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}}

__device__ inline void copy_back(unsigned from, const void* map, int x, int y) {{
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {{%1, %2}}], [%3];"
               : : "l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}}

__device__ inline void wait(unsigned barrier, int parity) {{
  unsigned done = 0;
  while (!done)
    asm volatile("{{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}}

{store}

// 128 threads; block (x, y) makes the tile at row 64 x, column 128 y, from `tiles` of k
extern "C" __global__ void gemm_{kind}(const void* map_a, const void* map_b, const void* map_d, int tiles) {{
  extern __shared__ unsigned char given[];
  __shared__ __align__(8) u64 barrier_;
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(given));
  unsigned char* const a = given + ({alignment} - first % {alignment}) % {alignment};
  unsigned char* const b = a + {a_bytes};
  unsigned char* const d_tile = b + {b_bytes};
  const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&barrier_));
  if (threadIdx.x == 0) {{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_a) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_b) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_d) : "memory");
  }}
  __syncthreads();
  {word} d[1][{count}] = {{}};
  for (int tile = 0; tile < tiles; ++tile) {{
    if (threadIdx.x == 0) {{
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"({bytes}) : "memory");
{copies}
    }}
    wait(barrier, tile & 1);
    uint64_t desc_a, desc_b;
    {{ unsigned char* const smem = a; {line_a} desc_a = desc; }}
    {{ unsigned char* const smem = b; {line_b} desc_b = desc; }}
    asm volatile("{text}"
        : {outputs}
        : {inputs} : "memory");
    __syncthreads();
  }}
  store(static_cast<unsigned>(__cvta_generic_to_shared(d_tile)), threadIdx.x, d);
  asm volatile("fence.proxy.async;" : : : "memory");
  __syncthreads();
  if (threadIdx.x == 0) {{
{copies_back}
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
  }}
}}
}}
"""


def tiles(kind: str) -> tuple[descriptor.SharedTile, ...]:
    """A and B in shared memory, WIDTH bytes of k, and D as it is stored."""
    row = resolve(KINDS[kind].instruction).instruction
    (_, n, _), held = row.shape, row.described[0].held
    k = WIDTH * 8 // held.slot_bits
    return (
        *(descriptor.tile((lines, k), held.type, "k", WIDTH, (lines, 32)) for lines in (M, n)),
        descriptor.tile((M, n), KINDS[kind].out, "k", WIDTH),
    )


def source(kind: str) -> str:
    """The whole CUDA source."""
    row, (a, b, out) = resolve(KINDS[kind].instruction).instruction, tiles(kind)
    made = plan_store_code(
        load(f"{row.id}.d"), StoreOptions("stmatrix", KINDS[kind].out, "row", f"boxes:{WIDTH}"), "store"
    )
    d, whole = row.fragment("d"), row.type("d") == "s32"
    copies = [*_copies("a", a, "x", f"tile * {a.k}"), *_copies("b", b, "y", f"tile * {b.k}")]
    text, inputs = _multiplied(row.name, d.registers, (a, b), whole)
    return KERNEL.format(
        kind=kind,
        store=made.conversion.code,
        alignment=max(one.alignment for one in (a, b, out)),
        a_bytes=a.bytes,
        b_bytes=b.bytes,
        bytes=a.bytes + b.bytes,
        word="int" if whole else "float",
        count=d.registers,
        copies="\n".join(copies),
        copies_back="\n".join(_copies_back(out)),
        line_a=descriptor.cuda(a),
        line_b=descriptor.cuda(b),
        text=text,
        inputs=inputs,
        outputs=", ".join(f'"+{"r" if whole else "f"}"(d[0][{j}])' for j in range(d.registers)),
    )


def _copies(to: str, tile: descriptor.SharedTile, block: str, start: str) -> list[str]:
    """A factor, a box after the other, as the descriptor's answer has them."""
    box = descriptor.tma(tile)
    inner, lines = box["box"]
    return [
        f"      copy(static_cast<unsigned>(__cvta_generic_to_shared({to})) + {n * box['box_bytes']}, map_{to}, "
        f"barrier, {start} + {n * inner}, blockIdx.{block} * {lines});"
        for n in range(box["boxes"])
    ]


def _copies_back(tile: descriptor.SharedTile) -> list[str]:
    """D, likewise."""
    box = descriptor.tma(tile)
    inner, lines = box["box"]
    return [
        f"    copy_back(static_cast<unsigned>(__cvta_generic_to_shared(d_tile)) + {n * box['box_bytes']}, map_d, "
        f"blockIdx.y * {tile.k} + {n * inner}, blockIdx.x * {lines});"
        for n in range(box["boxes"])
    ]


def _multiplied(name: str, registers: int, factors: tuple[descriptor.SharedTile, ...], whole: bool) -> tuple[str, str]:
    """All k steps of a tile as one asm text, and its inputs: a descriptor of each factor for each step."""
    signs = "" if whole else ", 1, 1"
    turned = ", 0, 0" if factors[0].bits == 16 else ""
    d = "{" + ", ".join(f"%{j}" for j in range(registers)) + "}"
    lines, inputs = ["{.reg .pred yes;", "setp.eq.u32 yes, 0, 0;", "wgmma.fence.sync.aligned;"], []
    for step in range(WIDTH // 32):
        at = registers + 2 * step
        lines.append(f"{name} {d}, %{at}, %{at + 1}, yes{signs}{turned};")
        inputs += [f'"l"(desc_{o} + {step * tile.per_k[0] // 16})' for o, tile in zip("ab", factors, strict=True)]
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;}"]
    return " ".join(lines), ", ".join(inputs)


def shared_bytes(kind: str) -> int:
    """Of dynamic shared memory: all tiles, and what it takes to begin where the pattern does."""
    return tiles(kind)[0].alignment + sum(tile.bytes for tile in tiles(kind))


def rounded(kind: str, d: np.ndarray) -> np.ndarray:
    """What NumPy says must be in memory, as unsigned numbers: D rounded to the type that it is stored as."""
    out = KINDS[kind].out
    if out == "s8":
        return np.clip(d, -128, 127).astype(np.int8).view(np.uint8)
    if out == "f16":
        return d.astype(np.float16).view(np.uint16)
    bits = d.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # bf16: to the nearest, ties to even


def tensor_map(tile: descriptor.SharedTile, memory, lines: int, k: int):
    """The tensor map of a whole matrix (lines x k) in device memory, on the device; memory is a CuPy array."""
    import cupy

    box = descriptor.tma(tile)
    kind, mode = box["data_type"].rpartition("_TYPE_")[2], box["swizzle"].rpartition("_SWIZZLE_")[2]
    code, raw = driver.encode_map(packed_map(kind, (k, lines), tuple(box["box"]), mode), memory.data.ptr)
    if code:
        raise RuntimeError(f"cuTensorMapEncodeTiled: {driver.result_name(code)}")
    return cupy.asarray(np.frombuffer(raw, np.uint8))


def compiled(kind: str):
    """The function on the first GPU, which must be of sm_90."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(0)
    return gpu.compile(source(kind), f"gemm_{kind}", "sm_90a", shared_bytes(kind))


def differing(kind: str, function, size: tuple[int, int, int], seed: int) -> int:
    """How many elements of D (m x n) are not NumPy's; m is a multiple of 64, n of 128, k of WIDTH bytes."""
    import cupy

    (m, n, k), row, rng = size, resolve(KINDS[kind].instruction).instruction, np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    bits = np.uint16 if kind == "bf16" else np.uint8
    wanted = rounded(kind, a @ b)
    held = [
        patterns(a, matrix(row, "a")).astype(bits),
        patterns(b.T, matrix(row, "b")).astype(bits),
        np.zeros_like(wanted),
    ]
    memory = [cupy.asarray(np.ascontiguousarray(one)) for one in held]
    maps = [tensor_map(tile, one, *one.shape) for tile, one in zip(tiles(kind), memory, strict=True)]
    steps = k // tiles(kind)[0].k
    function((m // 64, n // 128, 1), (128, 1, 1), (*maps, np.int32(steps)), shared_mem=shared_bytes(kind))
    return int((memory[2].get() != wanted).sum())


def main(arguments: list[str]) -> int:
    """Print the source, or run it."""
    kinds = [one for one in arguments if one in KINDS]
    if not kinds or set(arguments) - {*KINDS, "--run"}:
        print(__doc__)
        return 2
    wrong = 0
    for kind in kinds:
        if "--run" not in arguments:
            print(source(kind))
            continue
        function, k = compiled(kind), 3 * tiles(kind)[0].k
        for size in ((64, 128, k // 3), (128, 384, k)):
            found = differing(kind, function, size, seed=1)
            print(f"{kind} {'x'.join(map(str, size))}: {f'{found} elements differ' if found else 'equal to NumPy'}")
            wrong += bool(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
