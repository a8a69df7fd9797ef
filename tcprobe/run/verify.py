"""Multiplies on a live GPU whose operands go in and out by emitted code alone, compared with NumPy.

The numbers are those of `multiplicands`, the kernels those of `verify_source`. One launch has these variants, each in
every swizzle of factors in shared memory: the right operands; one i of a matrix with copies spoilt (if D does not
change, that i is never read; an element without copies is read if D is exact); a wrong layout of A or a wrong map of
the metadata, which must change D. A second launch multiplies the random floats of `verify_floats`; if the form's
arithmetic was measured, D must have exactly the model's bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.ask import registers
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS, INPUTS
from tcprobe.layout.arrays import Array, Bits, Ints
from tcprobe.run.multiplicands import Multiplicands, decode, draw, matrix, patterns, product
from tcprobe.run.verify_case import VerifyCase, cases
from tcprobe.run.verify_floats import bits_by_model, draw_floats, in_slots, model_of
from tcprobe.run.verify_source import WRONG, name, source, variant
from tcprobe.store.cell import Cell, sources
from tcprobe.store.choose import Layers
from tcprobe.system.pools import Pool

CHUNK = 16  # multiplies that are compiled together
COMPILERS = 8  # compilations at a time


class FloatResults(NamedTuple):
    """Results of random floats: how many there are, how many differ from the model's bits, the first of these or ""."""

    results: int
    wrong: int
    first: str


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
        """The multiply."""
        return self.case.instruction

    @property
    def arch(self) -> str:
        """The arch that it ran on."""
        return self.case.operands["d"].arch

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        by_model = self.floats is None or not self.floats.wrong
        return self.exact and by_model and self.noticed and self.expected in (None, self.unread)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        case, floats = self.case, self.floats
        return {
            "instruction": self.instruction.id,
            "arch": self.arch,
            "good": self.good,
            "exact": self.exact,
            "first_difference": self.first,
            "never_read": self.unread,
            "expected_never_read": self.expected,
            "float_results": floats and floats.results,
            "wrong_bits": floats and floats.wrong,
            "wrong_layout_noticed": self.noticed,
            "source": self.source,
            "selector": case.selector,
            "shared": {placed.operand.held.name: placed.major for placed in case.shared},
            "swizzles": [swizzle or "none" for swizzle in case.swizzles] if case.shared else [],
        }


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
        gpu.compile_cuda(source(part), list(map(name, part)), target)


def _target(case: VerifyCase) -> str | None:
    """The only PTX target that has a multiply (sm_90a), None if the GPU's own will do."""
    allowed = case.instruction.target.on(arch(case.operands["d"].arch))
    return allowed[0] if allowed and allowed[0][-1] in "af" else None


def check(gpu: CudaRunner, case: VerifyCase, multiplicands: Multiplicands) -> Verified:
    """Verify one case whose functions are compiled."""
    spoilt_slots = [(operand, i) for operand, fragment in case.matrices_with_copies for i in range(fragment.elements)]
    wrong = [operand for operand in WRONG if operand in ("a", *case.operands)]
    variants = [variant(), *(variant(*image) for image in spoilt_slots), *(variant(wrong=operand) for operand in wrong)]
    output = _run(gpu, case, multiplicands, variants)
    expected, d = product(case.instruction, multiplicands), matrix(case.instruction, "d")
    first = next(
        (
            words
            for swizzle, bits in zip(case.swizzles, output[0], strict=True)
            if (words := _difference(case, swizzle, decode(bits, d), expected))
        ),
        "",
    )
    same = [bool((image == output[0]).all()) for image in output[1 : 1 + len(spoilt_slots)]]
    unread = {
        o: tuple(i for (operand, i), s in zip(spoilt_slots, same, strict=True) if s and operand == o) for o in INPUTS
    }
    noticed = all((decode(bits, d) != expected).any() for image in output[1 + len(spoilt_slots) :] for bits in image)
    return Verified(
        case,
        not first,
        first,
        {o: i for o, i in unread.items() if i},
        _expected_unread(case),
        noticed,
        sources(case.operands.values()),
    )


def _difference(case: VerifyCase, swizzle: int, bit_patterns: Bits, expected: Array) -> str:
    """How many elements differ and the first of them, in words; "" if none does."""
    differs = np.argwhere(bit_patterns != expected)
    if not len(differs):
        return ""
    place = tuple(differs[0].tolist())
    where = f"swizzle {swizzle or 'none'}: " if case.shared else ""
    first = f"first D{list(place[1:])}: {bit_patterns[place]}, NumPy {expected[place]}"
    return f"{where}{len(differs)} of {expected.size} elements, {first}"


def _run(
    gpu: CudaRunner, case: VerifyCase, multiplicands: Multiplicands, variants: Sequence[Sequence[int]]
) -> NDArray[np.uint64]:
    """The bits of D that a kernel gives, of shape (variants, swizzles, products, m, n)."""
    bits = [patterns(getattr(multiplicands, o), matrix(case.instruction, o)) for o in INPUTS]
    return _run_case(gpu, case, bits, variants, multiplicands.index)


def _run_case(
    gpu: CudaRunner,
    case: VerifyCase,
    bits_of_operands: list[NDArray[np.uint64]],
    variants: Sequence[Sequence[int]],
    unit_places: Ints | None,
) -> NDArray[np.uint64]:
    """As `_run`, of A, B and C as bits, and where a sparse A's units were."""
    row, d = case.instruction, matrix(case.instruction, "d")
    inputs: list[Array] = [*map(np.ascontiguousarray, bits_of_operands), np.array(variants, np.int32)]
    if unit_places is not None:
        by_step = unit_places.reshape(len(unit_places), case.steps, -1).swapaxes(0, 1)
        inputs.append(np.ascontiguousarray(by_step.astype(np.uint8)))
    output = np.zeros((len(variants), len(case.swizzles), row.products, d.rows, d.cols), np.uint64)
    blocks = len(variants) * len(case.swizzles)
    gpu.call(name(case), blocks, inputs, output, (row.threads, case.shared_bytes))
    return output


def _floats(gpu: CudaRunner, case: VerifyCase, arithmetic: Arithmetic, seed: int) -> FloatResults:
    """Random floats in every swizzle, compared with the model bit by bit."""
    random_floats = draw_floats(case.instruction, np.random.default_rng(seed), case.steps)
    got = _run_case(gpu, case, in_slots(case.instruction, random_floats), [variant()], random_floats.index)[0]
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
