"""Multiplies on a live GPU whose operands go in and out by the emitted CUDA header alone, compared with NumPy.

A, B and C hold small whole numbers, none of them zero and no two lines alike, so that every type computes exactly and a
misplaced element shows. One launch runs variants side by side: as is, and with one i of an operand spoilt in every
lane (a NaN, or all bits turned): what then changes nothing is never read. A header with a wrong layout of A must fail.
Of a sparse multiply A is what is stored, under legal indices at random, for each selector: the register of metadata is
the header's `metadata` of these indices, and a header with a wrong map of the metadata must fail too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe import emit
from tcprobe.ask import trace
from tcprobe.emit.common import identifier, named
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import Cell, selections, sources

Ints = NDArray[np.int64]
Operands = Mapping[str, Cell]
WRONG = ("", "a", "e")  # the operand whose map is mistaken
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
extern "C" __global__ void {name}(const u64* a, const u64* b, const u64* c, const unsigned char* spoil{more}, u64* d) {{
  spoil += blockIdx.x * 32 * {slots};
  {wa} ra[{fa}::registers]; {wb} rb[{fb}::registers]; {wc} rc[{fc}::registers]; {wd} rd[{fd}::registers];
  gather<{fa}>(a, spoil, {na}, ra);
  gather<{fb}>(b, spoil + 32 * {fa}::elements, {nb}, rb);
  gather<{fc}>(c, spoil + 32 * ({fa}::elements + {fb}::elements), {nc}, rc);
{metadata}  asm volatile("{text}"
      : {outputs} : {inputs});
  scatter<{fd}>(d + blockIdx.x * {fd}::products * {fd}::rows * {fd}::cols, rd);
}}
"""


METADATA = "  const unsigned re = tcprobe::metadata<{fe}>(threadIdx.x, index);\n"


@dataclass(frozen=True)
class Multiplicands:
    """Whole numbers: a (products, m, k), b (products, k, n), c (products, m, n).

    Of a sparse multiply a (1, m, stored k), and `index` (m, stored units): where in its chunk a unit was.
    """

    a: Ints
    b: Ints
    c: Ints
    index: Ints | None = None


@dataclass(frozen=True)
class Verified:
    """What verifying one multiply gave.

    `exact`: D is NumPy's; `unread` by operand the i that change nothing in any lane; `expected` the same as the
    results have it, None where they say nothing; `noticed`: a wrong layout of A, or of metadata, gives another D;
    `source`: where the tables come from; `selector`: that of a sparse multiply.
    """

    instruction: Instruction
    arch: str
    exact: bool
    first: str
    unread: dict[str, tuple[int, ...]]
    expected: dict[str, tuple[int, ...]] | None
    noticed: bool
    source: str
    selector: int | None = None

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.exact and self.noticed and self.expected in (None, self.unread)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"instruction": self.instruction.id, "arch": self.arch, "good": self.good, "exact": self.exact,
                "first_difference": self.first, "never_read": self.unread, "expected_never_read": self.expected,
                "wrong_layout_noticed": self.noticed, "source": self.source, "selector": self.selector}  # fmt: skip


class CudaRunner(Protocol):
    """What of the GPU is needed: `tcprobe.run.gpu.Gpu`."""

    def compile_cuda(self, text: str, names: Sequence[str]) -> None:
        """Compile functions."""

    def call(self, name: str, blocks: int, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
        """Run one."""


def cases(instruction: Instruction, operands: Operands) -> list[tuple[Instruction, Operands]]:
    """What there is to verify of a multiply: of a sparse one the tables under each selector."""
    if "e" not in operands:
        return [(instruction, operands)]
    return [(instruction, {**operands, "e": e}) for e in selections(operands["e"])]


def verify(device: CudaRunner, todo: Sequence[tuple[Instruction, Operands]], seed: int) -> Iterator[Verified]:
    """Verify multiplies, each with the tables of its operands, under every selector, in order."""
    todo = [case for instruction, operands in todo for case in cases(instruction, operands)]
    chunks = [todo[start : start + CHUNK] for start in range(0, len(todo), CHUNK)]
    with ThreadPoolExecutor(COMPILERS) as pool:
        compiled = [
            [pool.submit(device.compile_cuda, source(part, wrong), [_name(*case, wrong) for case in part])
             for wrong in WRONG if (part := [case for case in chunk if not wrong or wrong in case[1]])]
            for chunk in chunks
        ]  # fmt: skip
        for chunk, futures in zip(chunks, compiled, strict=True):
            for future in futures:
                future.result()
            for instruction, operands in chunk:
                yield check(device, instruction, operands, draw(instruction, np.random.default_rng(seed)))


def check(device: CudaRunner, instruction: Instruction, operands: Operands, given: Multiplicands) -> Verified:
    """Verify one multiply whose functions are compiled."""
    d = instruction.fragment("d")
    spoil, variants = spoilt(instruction)
    output = _run(device, _name(instruction, operands), instruction, given, spoil)
    wanted = product(instruction, given)
    found = decoded(output[0], d)
    differs = np.argwhere(found != wanted)
    first = ""
    if len(differs):
        at = tuple(differs[0].tolist())
        first = f"{len(differs)} of {wanted.size} elements, first D{list(at[1:])}: {found[at]}, NumPy {wanted[at]}"
    same = [bool((output[number + 1] == output[0]).all()) for number in range(len(variants))]
    unread = {o: tuple(i for (operand, i), s in zip(variants, same, strict=True) if s and operand == o) for o in "abc"}
    wrong = [_name(instruction, operands, operand) for operand in WRONG if operand in operands]
    misled = (_run(device, name, instruction, given, spoil[:1])[0] for name in wrong)
    noticed = all((decoded(one, d) != wanted).any() for one in misled)
    return Verified(instruction, operands["d"].arch, not len(differs), first, {o: i for o, i in unread.items() if i},
                    _expected(instruction, operands), noticed, sources(operands.values()),
                    operands["e"].selector if "e" in operands else None)  # fmt: skip


def _run(device: CudaRunner, name: str, instruction: Instruction, given: Multiplicands,
         spoil: NDArray[np.uint8]) -> NDArray[np.uint64]:  # fmt: skip
    """The bits of D that a function gives in each variant of what is spoilt."""
    inputs: list[NDArray[Any]] = [patterns(getattr(given, o), instruction.fragment(o)) for o in "abc"]
    inputs.append(np.ascontiguousarray(spoil))
    if given.index is not None:
        inputs.append(given.index.astype(np.uint8))
    d = instruction.fragment("d")
    output = np.zeros((len(spoil), instruction.products, d.rows, d.cols), np.uint64)
    device.call(name, len(spoil), inputs, output)
    return output


def draw(instruction: Instruction, rng: np.random.Generator) -> Multiplicands:
    """Random whole numbers that the types hold exactly, as do all sums; bits for b1."""

    def numbers(fragment: Fragment, most: int) -> Ints:
        shape = (fragment.products, fragment.rows, fragment.cols)
        if fragment.type == "b1":
            return rng.integers(0, 2, shape)
        signed = fragment.type not in ("u8", "u4")
        return rng.integers(1, most + 1, shape) * (rng.choice([-1, 1], shape) if signed else 1)

    a, b, c = (instruction.fragment(operand) for operand in "abc")
    drawn = Multiplicands(numbers(a, 3), numbers(b, 3), numbers(c, 9))
    e = instruction.metadata
    return replace(drawn, index=indices(e, rng)) if e else drawn


def indices(metadata: Fragment, rng: np.random.Generator) -> Ints:
    """Legal indices at random, (rows, stored units): ascending in each chunk."""
    rule = sparsity(metadata)
    values = np.array([[rule.read(nibble, field) for field in range(rule.fields)] for nibble in rule.legal])
    chunks = metadata.cols // (rule.fields * rule.span)
    return values[rng.integers(0, len(values), (metadata.rows, chunks))].reshape(metadata.rows, -1)


def dense(rule: Sparsity, stored: Ints, index: Ints) -> Ints:
    """The whole of a sparse A (products, m, k), zero where nothing is stored."""
    columns = range(stored.shape[2])
    k = np.array([[rule.k(s, row[s // rule.span]) for s in columns] for row in index.tolist()])
    whole = np.zeros((*stored.shape[:2], len(columns) * rule.positions // rule.fields), np.int64)
    np.put_along_axis(whole, k[None], stored, axis=2)
    return whole


def product(instruction: Instruction, given: Multiplicands) -> Ints:
    """D as NumPy computes it; for b1 the population count of the bit operation."""
    if instruction.bit_op:
        operation = np.bitwise_xor if instruction.bit_op == "xor" else np.bitwise_and
        bits = operation(given.a[:, :, :, None], given.b[:, None, :, :])
        return np.asarray(given.c + bits.sum(axis=2))
    a = given.a
    if instruction.metadata and given.index is not None:
        a = dense(sparsity(instruction.metadata), a, given.index)
    return np.asarray(a @ given.b + given.c)


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
    fragments = [instruction.fragment(operand) for operand in "abc"]
    variants = [(f.operand, i) for f in fragments for i in range(f.elements)]
    starts = {f.operand: sum(g.elements for g in fragments[:number]) * WARP for number, f in enumerate(fragments)}
    total = sum(f.elements for f in fragments) * WARP
    found = np.zeros((len(variants) + 1, total), np.uint8)
    for number, (operand, i) in enumerate(variants, 1):
        elements = instruction.fragment(operand).elements
        found[number, starts[operand] + i + elements * np.arange(WARP)] = 1
    return found, variants


def source(todo: Sequence[tuple[Instruction, Operands]], wrong: str = "") -> str:
    """The header of all fragments, the map of operand `wrong` mistaken, and a kernel a multiply and selector."""
    tables = {named(cell): cell for _, operands in todo for cell in operands.values()}
    given = [mistaken(cell) if cell.fragment.operand == wrong else cell for cell in tables.values()]
    return "\n".join([emit.emit("cuda", given), HELPERS, *(_kernel(i, operands, wrong) for i, operands in todo)])


def mistaken(cell: Cell) -> Cell:
    """The same with two bits of lane exchanged: lane 1 holds what lane 4 does, and so on."""
    table = cell.table
    lanes = [lane & ~5 | (lane & 1) << 2 | lane >> 2 & 1 for lane in range(table.threads)]
    slots = [lane * table.elements + i for lane in lanes for i in range(table.elements)]
    values = {name: tuple(column[slot] for slot in slots) for name, column in table.values.items()}
    return replace(cell, table=slot_table(table.threads, table.elements, values))


def _kernel(instruction: Instruction, operands: Operands, wrong: str) -> str:
    fragments = {o: instruction.fragment(o) for o in "abcd"}
    names = {o: f"tcprobe::{named(cell)}" for o, cell in operands.items()}
    wide = {o: f.register_bits == 64 for o, f in fragments.items()}
    counts = {o: f.registers for o, f in fragments.items()}
    order = [(o, j) for o in "dabc" for j in range(counts[o])]
    number = {pair: str(n) for n, pair in enumerate(order)}
    braces = {o: "{" + ", ".join(f"%{number[o, j]}" for j in range(counts[o])) + "}" for o in "abcd"}
    inputs = [f'"{"l" if wide[o] else "r"}"(r{o}[{j}])' for o in "abc" for j in range(counts[o])]
    written = [braces[o] for o in "dabc"]
    if "e" in operands:
        written += [f"%{len(order)}", str(operands["e"].selector)]
        inputs.append('"r"(re)')
    return KERNEL.format(
        name=_name(instruction, operands, wrong),
        more=", const unsigned char* index" if "e" in operands else "",
        metadata=METADATA.format(fe=names["e"]) if "e" in operands else "",
        slots=f"({' + '.join(f'{names[o]}::elements' for o in 'abc')})",
        text=f"{instruction.name} {', '.join(written)};",
        outputs=", ".join(f'"={"l" if wide["d"] else "r"}"(rd[{j}])' for j in range(counts["d"])),
        inputs=", ".join(inputs),
        **{f"f{o}": names[o] for o in "abcd"},
        **{f"w{o}": "u64" if wide[o] else "unsigned" for o in "abcd"},
        **{f"n{o}": str(dtype(instruction.type(o)).has_nan).lower() for o in "abc"},
    )


def _name(instruction: Instruction, operands: Operands, wrong: str = "") -> str:
    chosen = f"_selector{operands['e'].selector}" if "e" in operands else ""
    return f"verify_{identifier(instruction.id)}{chosen}" + (f"_wrong_{wrong}" if wrong else "")


def _expected(instruction: Instruction, operands: Operands) -> dict[str, tuple[int, ...]] | None:
    """The i that are unread in every lane, as the multiply's measurement has it; None where there is none."""
    if trace.measured_multiply(instruction, operands) is None:
        return None
    unread = trace.unread(instruction, operands)
    found = {o: sorted({i for operand, _, i in unread if operand == o}) for o in "ab"}
    return {o: tuple(i for i in is_ if all((o, lane, i) in unread for lane in range(WARP)))
            for o, is_ in found.items() if is_}  # fmt: skip
