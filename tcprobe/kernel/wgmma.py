"""The kernel of sm_90: tensor maps, a producer warpgroup, mbarriers, wgmma, and D through stmatrix and TMA.

A block's tiles of A and B lie in shared memory as `tcprobe descriptor` says of them; every consumer warpgroup has 64 of
the rows. D goes through shared memory where its elements have 16 bits, else straight from the registers.

>>> from tcprobe.kernel.wgmma import WarpgroupGemm
>>> gemm = WarpgroupGemm("sm_90", "bf16", (128, 128, 64))
>>> gemm.consumers, gemm.threads, hex(gemm.tiles["a"].descriptor.encode())
(2, 384, '0x4000004000010000')
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from string import Template

from tcprobe import __version__
from tcprobe.ask import descriptor
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.ask.descriptor import SharedTile
from tcprobe.code.cuda import multiply_described, register_and_letter
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import FACTORS
from tcprobe.isa.rows import wgmma
from tcprobe.kernel import staged
from tcprobe.kernel.staged import OTHERS, StagedGemm, check_memory
from tcprobe.store.cell import Cell
from tcprobe.values import Json

# of each type the k of a multiply, its accumulator, A and B
FORMS = {
    "f16": "k16.f32.f16.f16",
    "bf16": "k16.f32.bf16.bf16",
    "tf32": "k8.f32.tf32.tf32",
    "e4m3": "k32.f32.e4m3.e4m3",
    "e5m2": "k32.f32.e5m2.e5m2",
    "s8": "k32.s32.s8.s8",
}
ALL_REGISTERS = 1 << 16  # of an SM
ATOM = 8  # lines of a swizzle's pattern
STORED = 16  # columns of 16 bits that D's way through shared memory takes at a time
LINES = 64  # of A and D that a warpgroup multiplies at a time
# by consumers the registers of a producer's and of a consumer's thread: whole multiples of 8 that 64K registers hold
REGISTERS = {1: (40, 232), 2: (24, 240), 3: (32, 160)}


@dataclass(frozen=True)
class WarpgroupGemm(StagedGemm):
    """A consumer warpgroup for every 64 rows of a block's tile, and a producer's.

    `cluster` blocks, 1 or 2, whose tiles lie below each other share the tile of B: each brings a part of it to all.
    """

    cluster: int = 1

    @property
    def numbering(self) -> tuple[str, str]:
        """Which consumer warpgroup has which rows, as --warps of `tcprobe where` takes it; nothing is permuted."""
        return f"{self.consumers}x1", ""

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.tile[0] // LINES

    @property
    def threads(self) -> int:
        """Of a block: the producer's warpgroup too."""
        return WARPGROUP * (1 + self.consumers)

    @cached_property
    def instruction(self) -> Instruction:
        """The multiply."""
        return resolve(f"wgmma.mma_async.m64n{self.tile[1]}{FORMS[self.type]}").instruction

    @cached_property
    def tiles(self) -> dict[str, SharedTile]:
        """A and B in shared memory, and a warpgroup's D where it goes through it."""
        m, n, k = self.tile
        majors = {"a": "k" if self.a == "row" else "mn", "b": "k" if self.b == "col" else "mn"}
        tiles = {
            name: descriptor.tile(
                (lines, k), self.type, majors[name], _width(self.type, k if majors[name] == "k" else lines), (block, 32)
            )
            for name, lines, block in (("a", m, LINES), ("b", n, n))
        }
        if dtype(self.out).bits == 16:
            tiles["d"] = descriptor.tile((LINES, n), self.out, "k", _width(self.out, n))
        return tiles

    @property
    def boxes(self) -> dict[str, Json]:
        """The tensor maps of A, B and D: type, box, swizzle, what is contiguous; boxes of a shared B are in parts."""
        boxes = {name: {**descriptor.tma(tile), "major": tile.major} for name, tile in self.tiles.items()}
        if self.cluster > 1 and self.tiles["b"].major == "k":
            inner, lines = boxes["b"]["box"]
            boxes["b"] |= {
                "box": [inner, lines // self.cluster],
                "boxes": boxes["b"]["boxes"] * self.cluster,
                "box_bytes": boxes["b"]["box_bytes"] // self.cluster,
            }
        return boxes

    @property
    def stage_bytes(self) -> int:
        """Of A and B of one step of the loop."""
        return self.tiles["a"].bytes + self.tiles["b"].bytes

    @property
    def alignment(self) -> int:
        """Of the first byte."""
        return max(tile.alignment for tile in self.tiles.values())

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory, with what it takes to begin where the swizzles do; D lies where stages were."""
        d = self.tiles["d"].bytes * self.consumers if "d" in self.tiles else 0
        return max(super().shared_bytes, d + self.alignment)

    @property
    def static_bytes(self) -> int:
        """Of two mbarriers a stage."""
        return 16 * self.stages

    @property
    def wavefronts(self) -> dict[str, Json]:
        """None: wgmma reads shared memory itself."""
        return {}

    @property
    def registers(self) -> dict[str, int]:
        """Of a consumer's thread."""
        return {"accumulators": self.instruction.fragment("d").registers}


def _width(kind: str, inner: int) -> int:
    """The widest swizzle whose rows so many elements fill."""
    return next((width for width in (128, 64, 32) if inner * dtype(kind).bits // 8 % width == 0), 0)


def check(gemm: WarpgroupGemm) -> WarpgroupGemm:
    """The GEMM itself; UsageError with the nearest possible one where there can be no such kernel."""
    _check_columns(gemm)
    m, count = gemm.tile[0], gemm.registers["accumulators"]
    heights = [LINES * consumers for consumers in REGISTERS]
    if m not in heights:
        warpgroups = f"1 to {len(heights)} warpgroups of {LINES} rows"
        raise UsageError(f"`tile`: m {m} must be one of {', '.join(map(str, heights))}: {warpgroups}.")
    there = min(REGISTERS[gemm.consumers][1], ALL_REGISTERS // gemm.threads // 8 * 8)  # ptxas counts those at the start
    if count + OTHERS > there:
        needed, has = f"{count} accumulators and {OTHERS} other registers", f"a thread of {gemm.threads} has"
        raise UsageError(f"`tile`: {needed} are more than the {there} that {has}; nearest: m 128.")
    _check_cluster(gemm)
    check_memory(gemm)
    return gemm


def _check_columns(gemm: WarpgroupGemm) -> None:
    """UsageError with the nearest for a tile as wide as no multiply, or whose rows TMA cannot store."""
    n, step = gemm.tile[1], STORED if dtype(gemm.out).bits == 16 else 1
    widths = [width for width in wgmma.widths(gemm.type) if width % step == 0]
    if n not in widths:
        near = ", ".join(map(str, sorted(sorted(widths, key=lambda width: abs(width - n))[:2])))
        raise UsageError(f"`tile`: no kernel into {gemm.out} has n {n}; nearest: n {near}.")


def _check_cluster(gemm: WarpgroupGemm) -> None:
    """UsageError for a cluster that is none, or whose blocks cannot share out the boxes of B."""
    if gemm.cluster not in (1, 2):
        raise UsageError(f"`cluster` {gemm.cluster}: use 1 or 2 blocks; with 2, each loads half of B for both.")
    tile = gemm.tiles["b"]
    least = ATOM if tile.major == "k" else tile.box[0]
    if gemm.cluster > 1 and tile.lines % (gemm.cluster * least):
        raise UsageError(
            f"`cluster` {gemm.cluster}: n {tile.lines} does not split into halves of whole boxes: use a multiple of "
            f"{gemm.cluster * least}."
        )


KERNEL = Template("""\
// made by tcprobe $version: D ($m x $n a block) = A B of $type into $out, for sm_90a
// A: $a_major, B: $b_major contiguous, D: rows contiguous. m, n and k are any; lines in memory are multiples of 16
// bytes apart. Launch: grid ((n + $last_n) / $n, (m + $last_m) / $m), $threads threads,
// $shared_bytes bytes of dynamic shared memory (cudaFuncAttributeMaxDynamicSharedMemorySize).
// Tensor maps (cuTensorMapEncodeTiled; what is contiguous comes first, sizes are the whole matrix's):
$maps
namespace $name {
struct alignas(64) TensorMap { unsigned long long words[16]; };
constexpr int CONSUMERS = $consumers, CLUSTER = $cluster, STAGES = $stages, TILE_M = $m, TILE_N = $n, TILE_K = $k;
constexpr unsigned BYTES_A = $a_bytes, STAGE = BYTES_A + $b_bytes;

__device__ inline void load(unsigned to, const TensorMap& map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
${multicast}// until the phase of a barrier with this parity is over
__device__ inline void wait(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}
${arrive}__device__ inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
// The multiply (tcprobe show $instruction): factors behind descriptors; without `more` D is overwritten
$multiply
$store
$raster
extern "C" __global__ void ${dims}__launch_bounds__($threads, 1)
$name(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
      ${map_d}void* d_, long long ldd, int m, int n, int k) {
  extern __shared__ unsigned char smem[];
  __shared__ alignas(8) unsigned long long barriers[2 * STAGES];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += ($alignment - shared % $alignment) % $alignment;  // where the swizzles begin
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)), empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(full + 8 * stage) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                   : : "r"(empty + 8 * stage), "r"(CONSUMERS * CLUSTER) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
  }
  $together
  unsigned row, col;
  place(row, col);
  const int m0 = row * TILE_M, n0 = col * TILE_N, tiles = (k + TILE_K - 1) / TILE_K;

  if (threadIdx.x < 128) {  // the producer: one thread fills stages as they become empty
    asm volatile("setmaxnreg.dec.sync.aligned.u32 $producer;");
    if (threadIdx.x == 0)
      for (int tile = 0; tile < tiles; ++tile) {
        const unsigned stage = tile % STAGES, at = shared + stage * STAGE, barrier = full + 8 * stage;
        const int k0 = tile * TILE_K;
        wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);  // the first round finds all empty
        expect(barrier, STAGE);
$loads
      }
  } else {  // a consumer: 64 rows of D
    asm volatile("setmaxnreg.inc.sync.aligned.u32 $consumer;");
    const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
    $word d[1][$count];
    for (int tile = 0; tile < tiles; ++tile) {
      const unsigned stage = tile % STAGES, at = shared + stage * STAGE;
      wait(full + 8 * stage, tile / STAGES % 2);
      // tcprobe descriptor --tile ${m}x$k --type $type --major $major_a, and --tile ${n}x$k --major $major_b
      const unsigned long long a = ${bits_a}ull | ((at + group * $per_group) & 0x3ffff) >> 4;
      const unsigned long long b = ${bits_b}ull | ((at + BYTES_A) & 0x3ffff) >> 4;
      asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
$steps
      asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");  // the tile before this one is multiplied
      if (tile && thread == 0) arrive(empty + 8 * ((tile - 1) % STAGES));
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
#pragma unroll
    for (int i = 0; i < $count; ++i) {
      asm volatile("" : "+$letter"(d[0][i]) : : "memory");  // what the multiplies write is read from here on
      if (!tiles) d[0][i] = 0;
    }
    const int first_row = m0 + group * 64;
$epilogue
  }
${last}}
}  // namespace $name
""")
BY_TMA = Template("""\
    // TMA writes whole pieces of 16 bytes, so that it has the blocks of which no piece goes beyond the end of a row
    if (n % $piece && n0 + TILE_N > n) {
  $straight
    } else {
    // all consumers have read the stages: D takes their place, $out_boxes boxes a warpgroup
    asm volatile("bar.sync 1, %0;" : : "n"(CONSUMERS * 128) : "memory");
    const unsigned at = shared + group * $out_bytes;
    store_boxed(at, thread, d);
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    asm volatile("bar.sync %0, 128;" : : "r"(2 + group) : "memory");
    if (thread == 0) {
$copies
      asm volatile("cp.async.bulk.commit_group;" : : : "memory");
      asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
    }
    }""")
MULTICAST = """\
// the same for all blocks of the cluster, at the same place and the same barrier of each
__device__ inline void load_all(unsigned to, const TensorMap& map, unsigned barrier, int x, int y) {
  const unsigned short blocks = (1 << CLUSTER) - 1;
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%2, %3}], [%4], %5;"
               : : "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks) : "memory");
}
"""
ARRIVE = """\
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(barrier) : "memory");
}
"""
ARRIVE_ALL = """\
// at the barrier of every block of the cluster: each writes to the stages of all
__device__ inline void arrive(unsigned barrier) {
#pragma unroll
  for (int block = 0; block < CLUSTER; ++block)
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 : : "r"(barrier), "r"(block) : "memory");
}
"""
TOGETHER = """\
asm volatile("barrier.cluster.arrive.release;" : : : "memory");  // all barriers of the cluster are ready
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");"""
LAST = """\
  // no block ends while another may still arrive at its barriers
  asm volatile("barrier.cluster.arrive.release;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
"""
STRAIGHT = """\
    store(static_cast<char*>(d_) + first_row * ldd + n0 * {size}, ldd, m - first_row, n - n0, d[0], thread);"""
PIECE = 16  # bytes that TMA writes at least
MAP_D = "const __grid_constant__ TensorMap map_d, "
COPY_BACK = """\
__device__ inline void copy_back(unsigned from, const TensorMap& map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
"""


def source(gemm: WarpgroupGemm, called: str) -> str:
    """The whole file."""
    row, (m, n, k), tiles = gemm.instruction, gemm.tile, gemm.tiles
    d = gemm.cell("d")
    word, letter = register_and_letter(d.fragment)
    producer, consumer = REGISTERS[gemm.consumers]
    boxed, straight = "d" in tiles, STRAIGHT.format(size=dtype(gemm.out).bits // 8)
    bits = {name: f"{tile.descriptor._replace(start=0).encode():#018x}" for name, tile in tiles.items()}
    return KERNEL.substitute(
        version=__version__,
        m=m,
        n=n,
        k=k,
        last_m=m - 1,
        last_n=n - 1,
        type=gemm.type,
        out=gemm.out,
        a_major="k" if gemm.a == "row" else "m",
        b_major="k" if gemm.b == "col" else "n",
        threads=gemm.threads,
        shared_bytes=gemm.shared_bytes,
        maps="\n".join(
            f"// map_{name}: {box['data_type']}, box {' x '.join(map(str, box['box']))}, {box['swizzle']}"
            for name, box in gemm.boxes.items()
        ),
        name=called,
        consumers=gemm.consumers,
        **_cluster(gemm),
        stages=gemm.stages,
        a_bytes=tiles["a"].bytes,
        b_bytes=tiles["b"].bytes,
        instruction=row.id,
        multiply=multiply_described(row, (gemm.a == "col", gemm.b == "row")),
        store=staged.store(d, gemm.out, gemm.arch) + (COPY_BACK + _store_function(d, tiles["d"]) if boxed else ""),
        raster=staged.RASTER.substitute(cluster=gemm.cluster),
        map_d=MAP_D if boxed else "",
        alignment=gemm.alignment,
        producer=producer,
        consumer=consumer,
        loads=_loads(gemm),
        word=word,
        letter=letter,
        count=d.fragment.registers,
        major_a=tiles["a"].major,
        major_b=tiles["b"].major,
        bits_a=bits["a"],
        bits_b=bits["b"],
        per_group=tiles["a"].per_block or 0,
        steps=_steps(gemm),
        epilogue=_by_tma(tiles["d"], straight) if boxed else straight,
    )


def _store_function(d: Cell, shared_tile: SharedTile) -> str:
    """`store` of a warpgroup's D into its boxes in shared memory."""
    placed = f"boxes:{shared_tile.width}" if shared_tile.descriptor.swizzle else "plain"
    code = plan_store_code(d, StoreOptions("stmatrix", shared_tile.type, "row", placed), "store_boxed").conversion.code
    assert code
    return code


def _cluster(gemm: WarpgroupGemm) -> Json:
    """What a cluster has more."""
    if gemm.cluster == 1:
        return {"cluster": 1, "multicast": "", "arrive": ARRIVE, "dims": "", "together": "__syncthreads();", "last": ""}
    return {
        "cluster": gemm.cluster,
        "multicast": MULTICAST,
        "arrive": ARRIVE_ALL,
        "together": TOGETHER,
        "last": LAST,
        "dims": f"__cluster_dims__(1, {gemm.cluster}, 1) ",
    }


def _loads(gemm: WarpgroupGemm) -> str:
    """Boxes of A and B one after the other, as the descriptor's answer has them."""
    lines = []
    for name, first, start in (("a", "m0", "at"), ("b", "n0", "at + BYTES_A")):
        box, count = gemm.boxes[name], gemm.cluster if name == "b" else 1
        inner, outer = box["box"]
        for number in range(box["boxes"]):
            to = f"{start} + {number * box['box_bytes']}, map_{name}, barrier"
            if box["major"] == "k":  # parts of a shared tile's boxes lie below each other
                beside, part = divmod(number, count)
                x, y = f"k0 + {beside * inner}", f"{first} + {part * outer}" if part else first
            else:
                x, y, part = f"{first} + {number * inner}", "k0", number * count // box["boxes"]
            mine = f"if (blockIdx.y % CLUSTER == {part}) load_all" if count > 1 else "load"
            lines.append(f"        {mine}({to}, {x}, {y});")
    return "\n".join(lines)


def _steps(gemm: WarpgroupGemm) -> str:
    """The multiplies of a tile, each k step as far on as the descriptor's answer says."""
    count = gemm.tile[2] // gemm.instruction.shape.k
    starts = {name: _starts(gemm.tiles[name], count) for name in FACTORS}
    more = ["tile", *["1"] * (count - 1)]
    return "\n".join(
        f"      multiply(d[0], a + {starts['a'][s] // 16}, b + {starts['b'][s] // 16}, {more[s]});"
        for s in range(count)
    )


def _starts(shared_tile: SharedTile, count: int) -> list[int]:
    each = shared_tile.per_k if len(shared_tile.per_k) != 1 else shared_tile.per_k * (count - 1)
    return [sum(each[:step]) for step in range(count)]


def _by_tma(shared_tile: SharedTile, straight: str) -> str:
    box = descriptor.tma(shared_tile)
    copies = [
        f"      copy_back(at + {n * box['box_bytes']}, map_d, n0 + {n * box['box'][0]}, first_row);"
        for n in range(box["boxes"])
    ]
    return BY_TMA.substitute(
        out_boxes=box["boxes"],
        out_bytes=shared_tile.bytes,
        copies="\n".join(copies),
        piece=PIECE * 8 // dtype(shared_tile.type).bits,
        straight=straight,
    )
