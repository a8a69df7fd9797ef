"""Multiplies on a live GPU whose operands go in and out by emitted code alone, compared with NumPy.

A case is a multiply, the tables of its fragments, and how its factors are placed in shared memory. A factor behind a
descriptor is a tile as `tcprobe descriptor` describes it, STEPS multiplies long, in every swizzle; its k steps are
taken by the steps that the answer says. Fragments use the header of `emit`.

One launch has these variants, each in every swizzle of factors in shared memory, a block each: the right operands; one
i of a matrix with copies spoilt in every thread (a NaN, or all bits inverted: if D does not change, that i is never
read; an element without copies is read if D is exact); a wrong layout of A (lane 1 holds what lane 4 should and so on,
or lines in shared memory are exchanged in pairs) or a wrong map of the metadata, which must change D. A second launch
multiplies random floats; if the form's arithmetic was measured, D must have exactly the model's bits. Loops are not
unrolled: that compiles faster.

>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store.cell import operands
>>> from tcprobe.store.results import published
>>> row = resolve("wgmma.m64n8k16.f32.bf16.bf16").instruction
>>> [str(case) for case in cases(row, operands(row, "sm_90", published()))][1:4]
['A in registers, B mn', 'A k, B k', 'A k, B mn']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from itertools import product as combinations
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe import emit
from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.ask import registers
from tcprobe.ask.descriptor import SharedTile, cuda, tile
from tcprobe.code.names import identifier
from tcprobe.code.templates import fill
from tcprobe.emit.common import cell_identifier
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.names import search, select_instructions
from tcprobe.isa.operand import FACTORS, INPUTS, Role
from tcprobe.layout.arrays import Array, Ints
from tcprobe.layout.descriptor import PERIOD, SWIZZLES, UNIT
from tcprobe.question.answers import Answer, plain
from tcprobe.run.multiplicands import (
    Multiplicands,
    bits_by_model,
    decode,
    draw,
    draw_floats,
    in_slots,
    matrix,
    model_of,
    patterns,
    product,
)
from tcprobe.store.cell import Cell, selections, sources
from tcprobe.store.choose import Layers
from tcprobe.system.children import Pool

NUMBERS = (8, 24, 64, 128, 256)  # N of a warpgroup's forms that are taken where none is named
STEPS = 4  # multiplies along k where factors are in shared memory: a row of the widest swizzle


@dataclass(frozen=True)
class SharedFactor:
    """A factor in shared memory, `major` contiguous, as one tile for all steps."""

    operand: SharedOperand
    major: str

    @property
    def matrix(self) -> str:
        """a or b."""
        return self.operand.held.name[0]

    @property
    def extent(self) -> tuple[int, int]:
        """Lines, and k of all steps."""
        operand = self.operand.held
        lines, k = (operand.rows, operand.cols) if self.matrix == "a" else (operand.cols, operand.rows)
        return lines, STEPS * k

    def tile(self, swizzle: int) -> SharedTile:
        """The least tile that contains it; if lines are contiguous, it has whole rows of the swizzle's pattern."""
        (lines, k), operand = self.extent, self.operand.held
        multiple = max(8, swizzle * 8 // operand.slot_bits) if self.major == "mn" else 8
        padded = -(-lines // multiple) * multiple
        return tile((padded, k), operand.type, self.major, swizzle, (padded, k // STEPS * operand.slot_bits // 8))

    @cached_property
    def bytes(self) -> int:
        """Bytes of shared memory for the largest of its tiles, in whole patterns."""
        return max(-(-self.tile(swizzle).bytes // PERIOD) * PERIOD for swizzle in SWIZZLES)


@dataclass(frozen=True)
class VerifyCase:
    """`operands` are the tables of the fragments, those of metadata under one selector; `shared` the other factors."""

    instruction: Instruction
    operands: Mapping[str, Cell]
    shared: tuple[SharedFactor, ...] = ()

    @property
    def steps(self) -> int:
        """Multiplies along k."""
        return STEPS if self.shared else 1

    @property
    def swizzles(self) -> tuple[int, ...]:
        """The swizzles of the tiles in shared memory, one product each; only 0 without such tiles."""
        return tuple(sorted(SWIZZLES)) if self.shared else (0,)

    @property
    def selector(self) -> int | None:
        """The selector of a sparse multiply."""
        return self.operands["e"].selector if "e" in self.operands else None

    @property
    def factors(self) -> dict[str, Cell]:
        """Tables of the factors in registers, by matrix."""
        in_shared = {placed.matrix for placed in self.shared}
        roles = {o: cell.fragment.role for o, cell in self.operands.items()}
        return {o: self.operands[o] for o in FACTORS if roles.get(o) is Role.FACTOR and o not in in_shared}

    @property
    def sums(self) -> Cell:
        """The table of C; of D for a wgmma, which adds to it."""
        return self.operands.get("c", self.operands["d"])

    @property
    def matrices_with_copies(self) -> list[tuple[str, Fragment]]:
        """The matrices with several holders of an element: some may never be read."""
        matrices = {**self.factors, "c": self.sums}
        return [(name, cell.fragment) for name, cell in matrices.items() if cell.fragment.copies > 1]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory, with room to align to a whole pattern."""
        return sum(placed.bytes for placed in self.shared) + PERIOD if self.shared else 0

    def __str__(self) -> str:
        if not self.shared:
            return ""
        majors = {placed.matrix: placed.major for placed in self.shared}
        return ", ".join(f"{o.upper()} {majors.get(o, 'in registers')}" for o in FACTORS)


def verifiable(*patterns: str) -> list[Instruction]:
    """The multiplies that match patterns and can be verified; without patterns all, warpgroups' only with N of NUMBERS.

    UsageError if there is none.
    """
    instructions = select_instructions(*patterns)
    multiplies = [row for row in instructions if row.multiplies]
    if not multiplies:
        raise search.no_multiply(instructions[0])
    rows = [row for row in multiplies if not row.unprobed and not row.scales]
    if not rows:
        why = "is block-scaled" if multiplies[0].scales else "has operands in tensor memory"
        covered = "operands in registers and shared memory, without scales"
        raise UsageError(f"{multiplies[0].id} {why}: `verify` covers {covered}.")
    return rows if patterns else [row for row in rows if not row.described or row.shape.n in NUMBERS]


def cases(instruction: Instruction, operands: Mapping[str, Cell]) -> Iterator[VerifyCase]:
    """All cases of a multiply: under each selector, with its factors in every possible place."""
    operands_by_selector = [{**operands, "e": e} for e in selections(operands["e"])] if "e" in operands else [operands]
    descriptors = list(instruction.described)
    in_registers = {fragment.operand for fragment in instruction.factors}
    required = [operand for operand in descriptors if operand.held.name[0] not in in_registers]
    places = [
        tuple(map(SharedFactor, in_shared, majors))
        for in_shared in ([required, descriptors] if len(required) < len(descriptors) else [required])
        for majors in combinations(*(operand.held.majors for operand in in_shared))
    ]
    for tables in operands_by_selector:
        yield from (VerifyCase(instruction, tables, shared) for shared in places)


WRONG = ("", "a", "e")  # the matrix whose map is mistaken, by the last number of a variant

HELPERS = "\n" + Path(__file__).with_suffix(".cuh").read_text()


def cuda_source(all_cases: Sequence[VerifyCase]) -> str:
    """The header of all fragments, and a kernel for each case."""
    tables = {cell_identifier(cell): cell for case in all_cases for cell in case.operands.values()}
    return "\n".join([emit.emit("cuda", list(tables.values())), HELPERS, *map(_kernel, all_cases)])


def kernel_name(case: VerifyCase) -> str:
    """The name of a case's kernel."""
    selector = f"_selector{case.selector}" if case.selector is not None else ""
    places = "".join(f"_{placed.operand.held.name}_{placed.major}" for placed in case.shared)
    return f"verify_{identifier(case.instruction.id)}{places}{selector}"


def variant(operand: str = "", i: int = -1, wrong: str = "") -> list[int]:
    """A variant as numbers: the spoilt i of A, of B and of C, -1 for none; the matrix whose map is wrong."""
    return [*(i if o == operand else -1 for o in INPUTS), WRONG.index(wrong)]


def _kernel(case: VerifyCase) -> str:
    """The kernel of a case; where D is added to, there is no C."""
    d, places = case.operands["d"], {placed.matrix for placed in case.shared}
    c = {"c": case.sums} if "c" in case.operands else {}
    arguments = ["pd", *(f"d{o}" if o in places else f"p{o}" for o in FACTORS), *(f"p{o}" for o in c)]
    return fill(
        Path(__file__).with_suffix(".cu"),
        case=case,
        name=kernel_name(case),
        registers={**case.factors, "d": d, **c},
        passed=case.factors | {"d": d} | c,
        wrong=WRONG,
        steps=STEPS,
        period=PERIOD,
        unit=UNIT,
        starts=[0, *accumulate(placed.bytes for placed in case.shared)],
        struct=lambda cell: f"tcprobe::{cell_identifier(cell)}",
        nan=lambda cell: str(dtype(cell.fragment.type).has_nan).lower(),
        descriptor=cuda,
        function=f"tcprobe::{identifier(case.instruction.id)}",
        template=_template(case),
        arguments=[*arguments, *(["re"] if "e" in case.operands else [])],
    )


def _template(case: VerifyCase) -> str:
    """The template arguments: the selector, signs, and what is transposed."""
    selector = [] if case.selector is None else [str(case.selector)]
    majors = {placed.matrix: placed.major for placed in case.shared if len(placed.operand.held.majors) > 1}
    transposed = [str(int(majors.get(o) == "mn")) for o in FACTORS] if majors else []
    arguments = [*selector, *(["1", "1", *transposed] if transposed else [])]
    return f"<{', '.join(arguments)}>" if arguments else ""


CHUNK = 16  # multiplies that are compiled together
COMPILERS = 8  # compilations at a time


class FloatResults(NamedTuple):
    """Results of random floats: how many there are, how many differ from the model's bits, the first of these or ""."""

    results: int
    wrong: int
    first: str


class VerifiedAnswer(Answer):
    """A multiply on a live GPU, one object per line."""

    instruction: str
    arch: str
    good: bool
    exact: bool
    first_difference: str | None
    never_read: dict[str, tuple[int, ...]]
    expected_never_read: dict[str, tuple[int, ...]] | None
    float_results: int | None
    wrong_bits: int | None
    wrong_layout_noticed: bool
    source: str
    selector: int | None
    shared: dict[str, Literal["k", "mn"]]
    swizzles: list[Literal["none", 32, 64, 128]]


@dataclass(frozen=True)
class Verified:
    """The outcome of verifying one case.

    `exact`: D is NumPy's; `unread`: by operand, the i that change nothing in any lane; `expected`: the same by the
    saved measurement, None without one; `noticed`: a wrong layout of A, or of the metadata, changes D; `source`: where
    the tables come from; `floats`: None for integers and for forms without a model.
    """

    case: VerifyCase
    exact: bool
    first: str
    unread: dict[str, tuple[int, ...]]
    expected: dict[str, tuple[int, ...]] | None
    noticed: bool
    source: str
    floats: FloatResults | None = None

    @property
    def instruction(self) -> Instruction:
        return self.case.instruction

    @property
    def arch(self) -> str:
        return self.case.operands["d"].arch

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        by_model = self.floats is None or not self.floats.wrong
        return self.exact and by_model and self.noticed and self.expected in (None, self.unread)

    def to_json(self) -> dict[str, object]:
        case, floats = self.case, self.floats
        answer = VerifiedAnswer.of(
            self,
            instruction=self.instruction.id,
            first_difference=self.first,
            never_read=self.unread,
            expected_never_read=self.expected,
            float_results=floats and floats.results,
            wrong_bits=floats and floats.wrong,
            wrong_layout_noticed=self.noticed,
            selector=case.selector,
            shared={placed.operand.held.name: placed.major for placed in case.shared},
            swizzles=[swizzle or "none" for swizzle in case.swizzles] if case.shared else [],
        )
        return plain(answer)


class CudaRunner(Protocol):
    """The methods of `tcprobe.run.gpu.Gpu` that are needed."""

    def compile_cuda(self, text: str, names: Sequence[str], target: str | None = None) -> None:
        """Compile functions; `target` is the PTX target, if it must be a particular one."""

    def call(
        self, name: str, blocks: int, inputs: Sequence[Array], destination: Array, each: tuple[int, int] = (32, 0)
    ) -> None:
        """Run a function; `each` has a block's threads and bytes of dynamic shared memory."""


def verify(
    gpu: CudaRunner,
    multiplies: Sequence[tuple[Instruction, Mapping[str, Cell]]],
    seed: int,
    layers: Layers | None = None,
) -> Iterator[Verified]:
    """Verify multiplies, each with the tables of its operands, in all their cases, in order.

    `layers` have the measured arithmetic; by default those that answers use.
    """
    every = [case for instruction, operands in multiplies for case in cases(instruction, operands)]
    chunks = [every[start : start + CHUNK] for start in range(0, len(every), CHUNK)]
    with Pool(COMPILERS) as pool:
        compiled = [pool.submit(compile_cases, gpu, chunk) for chunk in chunks]
        for chunk, future in zip(chunks, compiled, strict=True):
            future.result()
            for case in chunk:
                rule = model_of(case.instruction, case.operands["d"].arch, layers)
                verified = check(gpu, case, draw(case.instruction, np.random.default_rng(seed), case.steps))
                yield replace(verified, floats=_floats(gpu, case, rule, seed)) if rule else verified


def compile_cases(gpu: CudaRunner, chunk: Sequence[VerifyCase]) -> None:
    """Compile the kernels of cases, for each target that they need."""
    for target in dict.fromkeys(map(_target, chunk)):
        part = [case for case in chunk if _target(case) == target]
        gpu.compile_cuda(cuda_source(part), list(map(kernel_name, part)), target)


def _target(case: VerifyCase) -> str | None:
    """The only PTX target that has a multiply (sm_90a), None if the GPU's own will do."""
    allowed = case.instruction.target.on(arch(case.operands["d"].arch))
    return allowed[0] if allowed and allowed[0][-1] in "af" else None


def check(gpu: CudaRunner, case: VerifyCase, multiplicands: Multiplicands) -> Verified:
    """Verify one case whose functions are compiled."""
    spoilt_slots = [(operand, i) for operand, fragment in case.matrices_with_copies for i in range(fragment.elements)]
    wrong = [operand for operand in WRONG if operand in ("a", *case.operands)]
    variants = [variant(), *(variant(*image) for image in spoilt_slots), *(variant(wrong=operand) for operand in wrong)]
    bits = [patterns(getattr(multiplicands, o), matrix(case.instruction, o)) for o in INPUTS]
    output = _run(gpu, case, bits, variants, multiplicands.index)
    expected, d = product(case.instruction, multiplicands), matrix(case.instruction, "d")
    differences = (_difference(case, *each, expected) for each in zip(case.swizzles, decode(output[0], d), strict=True))
    first = next(filter(None, differences), "")
    same = [bool((image == output[0]).all()) for image in output[1 : 1 + len(spoilt_slots)]]
    unread = {
        o: tuple(i for (operand, i), s in zip(spoilt_slots, same, strict=True) if s and operand == o) for o in INPUTS
    }
    noticed = all((decode(bits, d) != expected).any() for image in output[1 + len(spoilt_slots) :] for bits in image)
    some_unread, source = {o: i for o, i in unread.items() if i}, sources(case.operands.values())
    return Verified(case, not first, first, some_unread, _expected_unread(case), noticed, source)


def _difference(case: VerifyCase, swizzle: int, d: Array, expected: Array) -> str:
    """How many elements differ and the first of them, in words; "" if none does."""
    differs = np.argwhere(d != expected)
    if not len(differs):
        return ""
    place = tuple(differs[0].tolist())
    where = f"swizzle {swizzle or 'none'}: " if case.shared else ""
    first = f"first D{list(place[1:])}: {d[place]}, NumPy {expected[place]}"
    return f"{where}{len(differs)} of {expected.size} elements, {first}"


def _run(
    gpu: CudaRunner,
    case: VerifyCase,
    bits_of_operands: list[NDArray[np.uint64]],
    variants: Sequence[Sequence[int]],
    unit_places: Ints | None,
) -> NDArray[np.uint64]:
    """The bits of D that a kernel gives, of shape (variants, swizzles, products, m, n), from the bits of A, B and C and
    where a sparse A's units were.
    """
    row, d = case.instruction, matrix(case.instruction, "d")
    inputs: list[Array] = [*map(np.ascontiguousarray, bits_of_operands), np.array(variants, np.int32)]
    if unit_places is not None:
        by_step = unit_places.reshape(len(unit_places), case.steps, -1).swapaxes(0, 1)
        inputs.append(np.ascontiguousarray(by_step.astype(np.uint8)))
    output = np.zeros((len(variants), len(case.swizzles), row.products, d.rows, d.cols), np.uint64)
    blocks = len(variants) * len(case.swizzles)
    gpu.call(kernel_name(case), blocks, inputs, output, (row.threads, case.shared_bytes))
    return output


def _floats(gpu: CudaRunner, case: VerifyCase, arithmetic: Arithmetic, seed: int) -> FloatResults:
    """Random floats in every swizzle, compared with the model bit by bit."""
    random_floats = draw_floats(case.instruction, np.random.default_rng(seed), case.steps)
    got = _run(gpu, case, in_slots(case.instruction, random_floats), [variant()], random_floats.index)[0]
    modelled = _modelled_bits(case.instruction, arithmetic, seed, case.steps)
    differs = np.argwhere(got != modelled)
    first = ""
    if len(differs):
        place = tuple(differs[0].tolist())
        where = f"swizzle {case.swizzles[place[0]] or 'none'}: " if case.shared else ""
        first = f"{where}D{list(place[2:])} of random floats: {got[place]:#x}, the model {modelled[place[1:]]:#x}"
    return FloatResults(got.size, len(differs), first)


@lru_cache(maxsize=4)
def _modelled_bits(instruction: Instruction, arithmetic: Arithmetic, seed: int, steps: int) -> NDArray[np.uint64]:
    """The model's bits of the same floats: one product for all places of a form's factors."""
    random_floats = draw_floats(instruction, np.random.default_rng(seed), steps)
    return bits_by_model(instruction, arithmetic, random_floats).astype(np.uint64)


def _expected_unread(case: VerifyCase) -> dict[str, tuple[int, ...]] | None:
    """The i that no lane's element is read of, by the multiply's measurement; None without one."""
    row, operands = case.instruction, case.operands
    if case.shared or registers.measured_multiply(row, operands) is None:
        return None
    unread = registers.unread(row, operands)
    of_some_lane = {o: sorted({i for operand, _, i in unread if operand == o}) for o in FACTORS}
    return {
        o: tuple(i for i in is_ if all((o, lane, i) in unread for lane in range(row.threads)))
        for o, is_ in of_some_lane.items()
        if is_
    }
