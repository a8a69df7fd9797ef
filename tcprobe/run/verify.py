"""Multiplies on a live GPU whose operands go in and out by the emitted CUDA header alone, compared with NumPy.

A, B and C hold small whole numbers, none of them zero and no two lines alike, so that every type computes exactly and a
misplaced element shows. One launch runs variants side by side: as is, and with one i of an operand spoilt in every
lane (a NaN, or all bits turned): what then changes nothing is never read. A header with a wrong layout of A must fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe import emit
from tcprobe.ask import trace
from tcprobe.emit.common import identifier
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import Cell, sources

Ints = NDArray[np.int64]
Operands = Mapping[str, Cell]
CHUNK = 16  # multiplies that are compiled together
COMPILERS = 8  # compilations at a time
DECODE: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}

HELPERS = """
typedef unsigned long long u64;

// every element of a fragment from its place in the matrix, spoilt where `spoil` says so
template <class F, class W>
__device__ void gather(const u64* matrix, const unsigned char* spoil, bool nan, W (&registers)[F::registers]) {
  const int lane = threadIdx.x;
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  for (int j = 0; j < F::registers; ++j) registers[j] = 0;
  #pragma unroll
  for (int i = 0; i < F::elements; ++i) {
    u64 v = matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * F::cols + F::col(lane, i)];
    if (spoil[lane * F::elements + i]) v = nan ? ones : v ^ ones;
    registers[i * F::slot_bits / F::register_bits] |= static_cast<W>(v) << (i * F::slot_bits % F::register_bits);
  }
}

// and back
template <class F, class W>
__device__ void scatter(u64* matrix, const W (&registers)[F::registers]) {
  const int lane = threadIdx.x;
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  #pragma unroll
  for (int i = 0; i < F::elements; ++i) {
    const u64 v = registers[i * F::slot_bits / F::register_bits] >> (i * F::slot_bits % F::register_bits) & ones;
    matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * F::cols + F::col(lane, i)] = v;
  }
}
"""

KERNEL = """
extern "C" __global__ void {name}(const u64* a, const u64* b, const u64* c, const unsigned char* spoil, u64* d) {{
  spoil += blockIdx.x * 32 * {slots};
  {wa} ra[{fa}::registers]; {wb} rb[{fb}::registers]; {wc} rc[{fc}::registers]; {wd} rd[{fd}::registers];
  gather<{fa}>(a, spoil, {na}, ra);
  gather<{fb}>(b, spoil + 32 * {fa}::elements, {nb}, rb);
  gather<{fc}>(c, spoil + 32 * ({fa}::elements + {fb}::elements), {nc}, rc);
  asm volatile("{text}"
      : {outputs} : {inputs});
  scatter<{fd}>(d + blockIdx.x * {fd}::products * {fd}::rows * {fd}::cols, rd);
}}
"""


@dataclass(frozen=True)
class Multiplicands:
    """Whole numbers: a (products, m, k), b (products, k, n), c (products, m, n)."""

    a: Ints
    b: Ints
    c: Ints


@dataclass(frozen=True)
class Verified:
    """What verifying one multiply gave.

    `exact`: D is NumPy's; `unread` by operand the i that change nothing in any lane; `expected` the same as the
    results have it, None where they say nothing; `noticed`: a wrong layout of A gives another D; `source`: where the
    tables come from.
    """

    instruction: Instruction
    arch: str
    exact: bool
    first: str
    unread: dict[str, tuple[int, ...]]
    expected: dict[str, tuple[int, ...]] | None
    noticed: bool
    source: str

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.exact and self.noticed and self.expected in (None, self.unread)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"instruction": self.instruction.id, "arch": self.arch, "good": self.good, "exact": self.exact,
                "first_difference": self.first, "never_read": self.unread, "expected_never_read": self.expected,
                "wrong_layout_noticed": self.noticed, "source": self.source}  # fmt: skip


class CudaRunner(Protocol):
    """What of the GPU is needed: `tcprobe.run.gpu.Gpu`."""

    def compile_cuda(self, text: str, names: Sequence[str]) -> None:
        """Compile functions."""

    def call(self, name: str, blocks: int, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
        """Run one."""


def verify(device: CudaRunner, todo: Sequence[tuple[Instruction, Operands]], seed: int) -> Iterator[Verified]:
    """Verify multiplies, each with the tables of its operands, in order."""
    chunks = [todo[start : start + CHUNK] for start in range(0, len(todo), CHUNK)]
    with ThreadPoolExecutor(COMPILERS) as pool:
        compiled = [
            [pool.submit(device.compile_cuda, source(chunk, suffix), [_name(i, suffix) for i, _ in chunk])
             for suffix in ("", "_wrong")]
            for chunk in chunks
        ]  # fmt: skip
        for chunk, futures in zip(chunks, compiled, strict=True):
            for future in futures:
                future.result()
            for instruction, operands in chunk:
                yield check(device, instruction, operands, draw(instruction, np.random.default_rng(seed)))


def check(device: CudaRunner, instruction: Instruction, operands: Operands, given: Multiplicands) -> Verified:
    """Verify one multiply whose functions are compiled."""
    d = instruction.fragments[3]
    inputs = [patterns(getattr(given, o), instruction.fragment(o)) for o in "abc"]
    spoil, variants = spoilt(instruction)
    shape = (len(spoil), instruction.products, d.rows, d.cols)
    output = np.zeros(shape, np.uint64)
    device.call(_name(instruction), len(spoil), [*inputs, spoil], output)
    wrong = np.zeros((1, *shape[1:]), np.uint64)
    device.call(_name(instruction, "_wrong"), 1, [*inputs, np.ascontiguousarray(spoil[:1])], wrong)
    wanted = product(instruction, given)
    found = decoded(output[0], d)
    differs = np.argwhere(found != wanted)
    first = ""
    if len(differs):
        at = tuple(differs[0].tolist())
        first = f"{len(differs)} of {wanted.size} elements, first D{list(at[1:])}: {found[at]}, NumPy {wanted[at]}"
    same = [bool((output[number + 1] == output[0]).all()) for number in range(len(variants))]
    unread = {o: tuple(i for (operand, i), s in zip(variants, same, strict=True) if s and operand == o) for o in "abc"}
    noticed = bool((decoded(wrong[0], d) != wanted).any())
    return Verified(instruction, operands["d"].arch, not len(differs), first, {o: i for o, i in unread.items() if i},
                   _expected(instruction, operands), noticed, sources(operands.values()))  # fmt: skip


def draw(instruction: Instruction, rng: np.random.Generator) -> Multiplicands:
    """Random whole numbers that the types hold exactly, as do all sums; bits for b1."""

    def numbers(fragment: Fragment, most: int) -> Ints:
        shape = (fragment.products, fragment.rows, fragment.cols)
        if fragment.type == "b1":
            return rng.integers(0, 2, shape)
        signed = fragment.type not in ("u8", "u4")
        return rng.integers(1, most + 1, shape) * (rng.choice([-1, 1], shape) if signed else 1)

    a, b, c, _ = instruction.fragments
    return Multiplicands(numbers(a, 3), numbers(b, 3), numbers(c, 9))


def product(instruction: Instruction, given: Multiplicands) -> Ints:
    """D as NumPy computes it; for b1 the population count of the bit operation."""
    if instruction.bit_op:
        operation = np.bitwise_xor if instruction.bit_op == "xor" else np.bitwise_and
        bits = operation(given.a[:, :, :, None], given.b[:, None, :, :])
        return np.asarray(given.c + bits.sum(axis=2))
    return np.asarray(given.a @ given.b + given.c)


def patterns(values: Ints, fragment: Fragment) -> NDArray[np.uint64]:
    """The bits of every number in the fragment's type."""
    kind = dtype(fragment.type)
    cell = {value: kind.pattern(value, fragment.slot_bits) for value in np.unique(values).tolist()}
    return np.array([cell[v] for v in values.ravel().tolist()], np.uint64).reshape(values.shape)


def decoded(bits: NDArray[np.uint64], fragment: Fragment) -> NDArray[Any]:
    """The numbers that the bits of an accumulator mean."""
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[fragment.slot_bits]
    return bits.astype(unsigned).view(DECODE[fragment.type])


def spoilt(instruction: Instruction) -> tuple[NDArray[np.uint8], list[tuple[str, int]]]:
    """(variants, slots of a, b and c) of what is spoilt: nothing first, then each (operand, i) in all lanes."""
    fragments = instruction.fragments[:3]
    variants = [(f.operand, i) for f in fragments for i in range(f.elements)]
    starts = {f.operand: sum(g.elements for g in fragments[:number]) * WARP for number, f in enumerate(fragments)}
    total = sum(f.elements for f in fragments) * WARP
    found = np.zeros((len(variants) + 1, total), np.uint8)
    for number, (operand, i) in enumerate(variants, 1):
        elements = instruction.fragment(operand).elements
        found[number, starts[operand] + i + elements * np.arange(WARP)] = 1
    return found, variants


def source(todo: Sequence[tuple[Instruction, Operands]], suffix: str = "") -> str:
    """The header of all fragments, with A wrong if there is a suffix, and a kernel a multiply."""
    tables = {cell.fragment.id: cell for _, operands in todo for cell in operands.values()}
    if suffix:
        tables = {id_: mistaken(cell) if cell.fragment.operand == "a" else cell for id_, cell in tables.items()}
    return "\n".join([emit.emit("cuda", list(tables.values())), HELPERS, *(_kernel(i, suffix) for i, _ in todo)])


def mistaken(cell: Cell) -> Cell:
    """The same with two bits of lane exchanged: lane 1 holds what lane 4 does, and so on."""
    table = cell.table
    lanes = [lane & ~5 | (lane & 1) << 2 | lane >> 2 & 1 for lane in range(table.threads)]
    slots = [lane * table.elements + i for lane in lanes for i in range(table.elements)]
    values = {name: tuple(column[slot] for slot in slots) for name, column in table.values.items()}
    return dataclasses.replace(cell, table=slot_table(table.threads, table.elements, values))


def _kernel(instruction: Instruction, suffix: str) -> str:
    names = {o: f"tcprobe::{identifier(f.id)}" for o, f in zip("abcd", instruction.fragments, strict=True)}
    wide = {o: f.register_bits == 64 for o, f in zip("abcd", instruction.fragments, strict=True)}
    counts = {o: f.registers for o, f in zip("abcd", instruction.fragments, strict=True)}
    order = [(o, j) for o in "dabc" for j in range(counts[o])]
    number = {pair: str(n) for n, pair in enumerate(order)}
    braces = {o: "{" + ", ".join(f"%{number[o, j]}" for j in range(counts[o])) + "}" for o in "abcd"}
    operands = {o: [f'"{"l" if wide[o] else "r"}"(r{o}[{j}])' for j in range(counts[o])] for o in "abc"}
    return KERNEL.format(
        name=_name(instruction, suffix),
        slots=f"({' + '.join(f'{names[o]}::elements' for o in 'abc')})",
        text=f"{instruction.name} {braces['d']}, {braces['a']}, {braces['b']}, {braces['c']};",
        outputs=", ".join(f'"={"l" if wide["d"] else "r"}"(rd[{j}])' for j in range(counts["d"])),
        inputs=", ".join(text for o in "abc" for text in operands[o]),
        **{f"f{o}": name for o, name in names.items()},
        **{f"w{o}": "u64" if wide[o] else "unsigned" for o in "abcd"},
        **{f"n{o}": str(dtype(instruction.type(o)).has_nan).lower() for o in "abc"},
    )


def _name(instruction: Instruction, suffix: str = "") -> str:
    return f"verify_{identifier(instruction.id)}{suffix}"


def _expected(instruction: Instruction, operands: Operands) -> dict[str, tuple[int, ...]] | None:
    """The i that are unread in every lane, as the multiply's measurement has it; None where there is none."""
    if trace.measured_multiply(instruction, operands) is None:
        return None
    unread = trace.unread(instruction, operands)
    found = {o: sorted({i for operand, _, i in unread if operand == o}) for o in "ab"}
    return {o: tuple(i for i in is_ if all((o, lane, i) in unread for lane in range(WARP)))
            for o, is_ in found.items() if is_}  # fmt: skip
