"""The CUDA source that verifies multiplies: operands go in and out by emitted code alone.

Fragments use the header of `emit`; a factor in shared memory uses the formula, the line and the steps that `tcprobe
descriptor` gives for its tile. A kernel has a block for each variant and swizzle. A variant is one mistake: none; one i
of a matrix in every thread (a NaN, or all bits inverted); or the map of A or of the metadata, by which lane 1 holds
what lane 4 should and so on, or lines in shared memory are exchanged in pairs. Loops are not unrolled: that compiles
faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from tcprobe import emit
from tcprobe.ask.descriptor import cuda
from tcprobe.code.names import identifier
from tcprobe.emit.common import cell_identifier
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import FACTORS, INPUTS
from tcprobe.layout.descriptor import PERIOD, UNIT
from tcprobe.run.verify_case import STEPS, Placed, VerifyCase
from tcprobe.store.cell import Cell

WRONG = ("", "a", "e")  # the matrix whose map is mistaken, by the last number of a variant

HELPERS = """
typedef unsigned long long u64;

// the lane whose elements a thread is to hold: where the map is mistaken, with two bits exchanged
__device__ inline int lane_of(bool mistaken) {
  const int lane = threadIdx.x;
  return mistaken ? (lane & ~5) | (lane & 1) << 2 | (lane >> 2 & 1) : lane;
}

// every element of a fragment from its place in a matrix with rows `pitch` apart, i = `spoilt` of every thread spoilt
template <class F, class W>
__device__ void gather(int lane, const u64* matrix, int pitch, int spoilt, bool nan, W (&registers)[F::registers]) {
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  for (int j = 0; j < F::registers; ++j) registers[j] = 0;
  #pragma unroll 1
  for (int i = 0; i < F::elements; ++i) {
    u64 v = matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * pitch + F::col(lane, i)];
    if (i == spoilt) v = nan ? ones : v ^ ones;
    registers[i * F::slot_bits / F::register_bits] |= static_cast<W>(v) << (i * F::slot_bits % F::register_bits);
  }
}

// and back
template <class F, class W>
__device__ void scatter(u64* matrix, const W (&registers)[F::registers]) {
  const int lane = threadIdx.x;
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  #pragma unroll 1
  for (int i = 0; i < F::elements; ++i) {
    const u64 v = registers[i * F::slot_bits / F::register_bits] >> (i * F::slot_bits % F::register_bits) & ones;
    matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * F::cols + F::col(lane, i)] = v;
  }
}

// the bits of registers
template <class To, class From, int count>
__device__ __forceinline__ void copied(To (&to)[count], const From (&from)[count]) {
  static_assert(sizeof(To) == sizeof(From), "");
  #pragma unroll
  for (int j = 0; j < count; ++j) {
    union { From from; To to; } both;
    both.from = from[j];
    to[j] = both.to;
  }
}

// `bits` bits of v to byte `offset` of shared memory that was zero; of less than a byte to bit k % 8
template <int bits>
__device__ void put(unsigned char* shared, int offset, int k, u64 v) {
  const int bit = offset % 4 * 8 + (bits < 8 ? k % 8 : 0);
  atomicOr(reinterpret_cast<unsigned*>(shared + (offset & ~3)), static_cast<unsigned>(v) << bit);
}
"""

KERNEL = """
namespace {name}_ {{
typedef unsigned long long uint64_t;
extern "C" __global__ void {name}({inputs}, u64* d) {{
  const int placed = blockIdx.x % {swizzles}, *variant = variants + blockIdx.x / {swizzles} * 4;
  (void)placed;
{body}
}}
}}
"""

# dynamic shared memory that begins where every pattern does, all zero
MEMORY = f"""
  extern __shared__ __align__({PERIOD}) unsigned char given[];
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(given));
  unsigned char* const memory = given + ({PERIOD} - first % {PERIOD}) % {PERIOD};
  for (int at = threadIdx.x * 4; at < BYTES; at += blockDim.x * 4) *reinterpret_cast<unsigned*>(memory + at) = 0;
  __syncthreads();
"""
FENCE = ['asm volatile("fence.proxy.async;" : : : "memory");', "__syncthreads();"]


def source(all_cases: Sequence[VerifyCase]) -> str:
    """The header of all fragments, and a kernel for each case."""
    tables = {cell_identifier(cell): cell for case in all_cases for cell in case.operands.values()}
    return "\n".join([emit.emit("cuda", list(tables.values())), HELPERS, *map(_kernel, all_cases)])


def name(case: VerifyCase) -> str:
    """The name of a case's kernel."""
    selector = f"_selector{case.selector}" if case.selector is not None else ""
    places = "".join(f"_{placed.operand.held.name}_{placed.major}" for placed in case.shared)
    return f"verify_{identifier(case.instruction.id)}{places}{selector}"


def variant(operand: str = "", i: int = -1, wrong: str = "") -> list[int]:
    """A variant as numbers: the spoilt i of A, of B and of C, -1 for none; the matrix whose map is wrong."""
    return [*(i if o == operand else -1 for o in INPUTS), WRONG.index(wrong)]


def _kernel(case: VerifyCase) -> str:
    inputs = ["const u64* a", "const u64* b", "const u64* c", "const int* variants"]
    inputs += ["const unsigned char* index"] if "e" in case.operands else []
    body = [*_declarations(case), *_fill_shared(case), *_multiply_steps(case)]
    return KERNEL.format(
        name=name(case),
        inputs=", ".join(inputs),
        swizzles=len(case.swizzles),
        body="\n".join(f"  {line}" if line[:1] != "\n" else line for line in body),
    )


def _struct(cell: Cell) -> str:
    return f"tcprobe::{cell_identifier(cell)}"


def _word(cell: Cell) -> str:
    return "u64" if cell.fragment.register_bits == 64 else "unsigned"


def _declarations(case: VerifyCase) -> Iterator[str]:
    """Declare the registers of every fragment, with C in them, and a descriptor of each factor in shared memory."""
    cells = [*case.factors.items(), ("d", case.operands["d"]), *([] if _adds(case) else [("c", case.sums)])]
    yield from (f"{_word(cell)} r{o}[{_struct(cell)}::registers];" for o, cell in cells)
    to = "rd" if _adds(case) else "rc"
    yield _gather_call("c", case.sums, "c", case.sums.fragment.cols, to)
    for placed in case.shared:
        yield f"uint64_t d{placed.matrix} = 0; int next_{placed.matrix}[{STEPS}] = {{}};"


def _adds(case: VerifyCase) -> bool:
    """Whether D is added to, so that there is no C."""
    return "c" not in case.operands


def _gather_call(matrix: str, cell: Cell, pointer: str, pitch: int, to: str) -> str:
    nan = str(dtype(cell.fragment.type).has_nan).lower()
    return f"gather<{_struct(cell)}>({_lane(matrix)}, {pointer}, {pitch}, variant[{'abc'.index(matrix)}], {nan}, {to});"


def _lane(matrix: str) -> str:
    return f"lane_of(variant[3] == {WRONG.index(matrix)})" if matrix in WRONG else "threadIdx.x"


def _fill_shared(case: VerifyCase) -> Iterator[str]:
    """Fill shared memory, for each swizzle."""
    if not case.shared:
        return
    starts = [0, *accumulate(placed.bytes for placed in case.shared)]
    yield MEMORY.replace("BYTES", str(starts[-1]))
    yield "switch (placed) {"
    for number, swizzle in enumerate(case.swizzles):
        yield f"case {number}:  // swizzle {swizzle or 'none'}"
        for placed, start in zip(case.shared, starts, strict=False):
            yield from (f"  {line}" for line in _tile(placed, swizzle, start))
        yield "  break;"
    yield from ("}", *FENCE)


def _tile(tile_place: Placed, swizzle: int, start: int) -> Iterator[str]:
    """Fill a tile at byte `start`, element by element, and make its descriptor."""
    tile, (lines, k) = tile_place.tile(swizzle), tile_place.extent
    element = f"e / {k} * {k} + e % {k}" if tile_place.matrix == "a" else f"e % {k} * {lines} + e / {k}"
    steps = tile.per_k * (STEPS - 1) if len(tile.per_k) == 1 else tile.per_k
    mistaken = f" ^ (variant[3] == {WRONG.index(tile_place.matrix)})" if tile_place.matrix in WRONG else ""
    yield "{"
    yield f"  unsigned char* const smem = memory + {start};"
    yield "  #pragma unroll 1"
    yield f"  for (int e = threadIdx.x; e < {lines * k}; e += blockDim.x) {{"
    yield f"    const int line = e / {k}{mistaken}, k = e % {k};"
    yield f"    put<{tile.bits}>(smem, {tile.formula}, k, {tile_place.matrix}[{element}]);"
    yield "  }"
    yield f"  {cuda(tile)}"
    yield f"  d{tile_place.matrix} = desc;"
    yield from (f"  next_{tile_place.matrix}[{step}] = {size // UNIT};" for step, size in enumerate(steps))
    yield "}"


def _multiply_steps(case: VerifyCase) -> Iterator[str]:
    """Multiply step by step along k, and store D."""
    d = case.operands["d"]
    yield "#pragma unroll 1"
    yield f"for (int step = 0; step < {case.steps}; ++step) {{"
    for o, cell in case.factors.items():
        across = cell.fragment.cols
        by_step = f" + step * {across}" if case.steps > 1 else ""
        yield "  " + _gather_call(o, cell, f"{o}{by_step}", case.steps * across, f"r{o}")
    if "e" in case.operands:
        e = case.operands["e"].fragment
        yield (
            f"  const unsigned re = tcprobe::metadata<{_struct(case.operands['e'])}>({_lane('e')}, "
            f"index + step * {e.rows * e.cols // e.span});"
        )
    yield from (f"  {line}" for line in _multiply_call(case))
    yield from (f"  d{placed.matrix} += next_{placed.matrix}[step];" for placed in case.shared)
    yield "}"
    size = f"{_struct(d)}::products * {_struct(d)}::rows * {_struct(d)}::cols"
    yield f"scatter<{_struct(d)}>(d + blockIdx.x * {size}, rd);"


def _multiply_call(case: VerifyCase) -> Iterator[str]:
    """Call the emitted function of the multiply on operands in registers; wait for it if it is asynchronous."""
    name, in_registers = f"tcprobe::{identifier(case.instruction.id)}", case.factors | {"d": case.operands["d"]}
    in_registers |= {} if _adds(case) else {"c": case.sums}
    for operand, cell in in_registers.items():
        yield f"typename {_struct(cell)}::word p{operand}[{_struct(cell)}::registers]; copied(p{operand}, r{operand});"
    places = {placed.matrix for placed in case.shared}
    arguments = ["pd", *(f"d{o}" if o in places else f"p{o}" for o in FACTORS), *([] if _adds(case) else ["pc"])]
    arguments += ["re"] if "e" in case.operands else []
    statement = f"{name}::mma{_template(case)}({', '.join(arguments)});"
    fences = "".join(f"{name}::fence_operand(p{operand}); " for operand in in_registers)
    waits = f"{name}::commit_group(); {name}::wait_group(); {name}::fence_operand(pd);"
    yield from (f"{fences}{name}::fence();", statement, waits) if case.shared else (statement,)
    yield "copied(rd, pd);"


def _template(case: VerifyCase) -> str:
    """The template arguments: the selector, signs, and what is transposed."""
    selector = [] if case.selector is None else [str(case.selector)]
    majors = {placed.matrix: placed.major for placed in case.shared if len(placed.operand.held.majors) > 1}
    transposed = [str(int(majors.get(o) == "mn")) for o in FACTORS] if majors else []
    arguments = [*selector, *(["1", "1", *transposed] if transposed else [])]
    return f"<{', '.join(arguments)}>" if arguments else ""
