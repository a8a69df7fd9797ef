"""The arithmetic of multiplies: directed products give its parameters, random and adversarial ones prove the model.

    tcprobe run --family numerics

Forms that differ only in m, n and layout are measured together. The first is measured in full. The others multiply the
same factors and must give the same bits; a warpgroup's forms also with A in shared memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from tcprobe.arithmetic import integers as whole
from tcprobe.arithmetic.formats import FORMATS, Decoded
from tcprobe.arithmetic.forms import together, types
from tcprobe.arithmetic.model import dot, factor, multiplied
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers
from tcprobe.arithmetic.scales import BlockScales, block_sums, scaled
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Bits, Bools, Ints
from tcprobe.probes.experiment import Bench, Context, Dialogue, Reading
from tcprobe.probes.numerics_cases import Images, MultiplySize, floats, integers, scales
from tcprobe.probes.numerics_directed import parameters
from tcprobe.probes.numerics_dots import Directed, Dots
from tcprobe.probes.numerics_kernels import Operands, TabledForm, kernel
from tcprobe.probes.ptx import Kernel
from tcprobe.store.kinds.numerics import Body, WrongCase

KIND = "numerics"
CASES = 100_000  # at least, of each arithmetic
SHOWN = 8
UNFIT_SHOWN = 64  # cases of a form that the model does not describe
OTHERS = 16_384  # results of each other form that are compared
AT_ONCE = 8  # images of a thread's piece of work


def size_of(instruction: Instruction) -> MultiplySize:
    """The sizes of one multiply."""
    return MultiplySize(instruction.products, instruction.shape.m, instruction.shape.n, instruction.stored)


def images(instruction: Instruction, count: int, seed: int = 0) -> Images:
    """Random and adversarial images for a form."""
    kinds, size = types(instruction), size_of(instruction)
    made = (floats if kinds.is_float else integers)(kinds, size, count, seed)
    if not instruction.scales:
        return made
    of_a = instruction.scales[0]
    return made._replace(scales=scales(of_a.type, size, of_a.cols, count))


def model_results(
    instruction: Instruction, arithmetic: Arithmetic | Integers, made: Images, satfinite: bool = False
) -> Bits:
    """D of images by the model, as bits."""
    kinds = types(instruction)
    if isinstance(arithmetic, Integers):
        given = (whole.numbers(kinds.a, made.a), whole.numbers(kinds.b, made.b), whole.numbers("s32", made.c))
        return (whole.multiplied(kinds, arithmetic, given, satfinite) & 0xFFFFFFFF).astype(np.uint32)
    if arithmetic.fraction_bits is None:
        full = np.broadcast_shapes(made.a[..., :, None, :].shape, made.b[..., None, :, :].shape)
        pair = [np.broadcast_to(part, full) for part in (made.a[..., :, None, :], made.b[..., None, :, :])]
        return dot(kinds, arithmetic, (pair[0], pair[1], made.c))
    a, b = factor("a", kinds.a, arithmetic, made.a), factor("b", kinds.b, arithmetic, made.b)
    if made.scales and arithmetic.summed_first > 1:
        return _of_sums(kinds, arithmetic, (a, b), made)
    if made.scales:
        a, b = scaled(a, made.scales.kind, made.scales.a), scaled(b, made.scales.kind, made.scales.b)
    every = slice(None)
    return multiplied(kinds, arithmetic, (a.at((..., every, None, every)), b.at((..., None, every, every))), made.c)


def _of_sums(kinds: ElementTypes, arithmetic: Arithmetic, factors: tuple[Decoded, Decoded], made: Images) -> Bits:
    """As `model_results`, if products are summed before they are scaled."""
    every, count = slice(None), arithmetic.summed_first
    lines = factors[0].at((..., every, None, every)), factors[1].at((..., None, every, every))
    assert made.scales is not None
    blocks = tuple(tuple(sorted({k // count for k in group})) for group in arithmetic.groups)
    whole = msgspec.structs.replace(arithmetic, groups=blocks, summed_first=1)
    return multiplied(kinds, whole, block_sums(lines, made.scales, count), made.c)


def follow(instruction: Instruction, arithmetic: Arithmetic | Integers, made: Images, satfinite: bool = False) -> Bits:
    """As `model_results`, in several threads."""

    def part(at: int) -> Bits:
        return model_results(instruction, arithmetic, made.at(slice(at, at + AT_ONCE)), satfinite)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(part, range(0, len(made.a), AT_ONCE))))


def differ(kinds: ElementTypes, arithmetic: Arithmetic | Integers, got: Bits, expected: Bits) -> Bools:
    """Where results differ; any NaN equals any other if the form gives several."""
    other: Bools = got != expected
    if isinstance(arithmetic, Integers) or arithmetic.nan:
        return other
    d = FORMATS[kinds.d]
    size = (1 << d.bits - 1) - 1
    other &= ~(((got & size) > d.infinity) & ((expected & size) > d.infinity))
    return other


@dataclass(frozen=True)
class NumericsExperiment(Dialogue):
    """The arithmetic of some forms; at least `cases` results of the first are compared with the model."""

    rows: tuple[Instruction, ...]
    cases: int = CASES
    kind = KIND

    @property
    def id(self) -> str:
        """The first form's id."""
        return self.first.id

    @property
    def first(self) -> Instruction:
        """The form that is measured in full."""
        return self.rows[0]

    @property
    def target(self) -> Target:
        """The target that the first form needs."""
        return self.first.target

    def kernels(self) -> list[Kernel]:
        """One kernel for each form; for integers, a second with .satfinite for the first form."""
        return [*map(kernel, self.rows), *(kernel(row, True) for row in self.rows[:1] if self._clampable)]

    @property
    def _clampable(self) -> bool:
        kinds = types(self.first)
        return not kinds.is_float and kinds.a != "b1"

    def measure(self, bench: Bench) -> Reading:
        """ "body": the Body as JSON, since the proof needs all cases."""
        form = _form(self.first, bench)
        count = -(-self.cases // (self.first.shape.m * self.first.shape.n * self.first.products))
        made = images(self.first, count, seed=len(self.id))
        body = self._floats(bench, form, made) if form.types.is_float else self._integers(bench, form, made)
        return {"body": np.frombuffer(msgspec.json.encode(body), np.uint8)}

    def conclude(self, reading: Reading, context: Context) -> Body:
        """The parameters, and the cases that they rest on."""
        return msgspec.json.decode(reading["body"].tobytes(), type=Body)

    def _floats(self, bench: Bench, form: TabledForm, made: Images) -> Body:
        directed = Directed(
            form.types,
            self.first.stored,
            lambda a, b, c: dots(bench, form, Images(a, b, c)),
            partial(_scaled_dots, bench, form) if self.first.scales else None,
        )
        got = _run(bench, form, made)
        try:
            rule = parameters(directed)
        except ProbeError as error:
            return self._unfit(form, made, got, (directed.asked, str(error)))
        wrong, shown = wrong_cases(form, rule, made, (got, follow(self.first, rule, made)))
        compared = self._compared(bench, form, made, got)
        return Body([row.id for row in self.rows], directed.asked, got.size, wrong, compared, rule, None, shown)

    def _unfit(self, form: TabledForm, made: Images, got: Bits, asked: tuple[int, str]) -> Body:
        """The finding on a form that the model does not describe: why, and cases from all its images."""
        directed, why = asked
        spread = np.linspace(0, got.size - 1, UNFIT_SHOWN).astype(np.int64)
        places = np.stack(np.unravel_index(spread, got.shape), axis=-1)
        shown = [msgspec.structs.replace(case, model=None) for case in _wrong(form.types, made, (got, got), places)]
        return Body([self.first.id], directed, got.size, got.size, 0, None, None, shown, why)

    def _integers(self, bench: Bench, form: TabledForm, made: Images) -> Body:
        ends = _overflows(bench, form)
        rule = Integers(ends, _overflows(bench, TabledForm(form.row, form.tables, True)) if self._clampable else None)
        got = _run(bench, form, made)
        wrong, shown = wrong_cases(form, rule, made, (got, follow(self.first, rule, made)))
        tried = got.size
        if self._clampable:
            clamped = _run(bench, TabledForm(form.row, form.tables, True), made)
            more, others = wrong_cases(form, rule, made, (clamped, follow(self.first, rule, made, satfinite=True)))
            wrong, shown, tried = wrong + more, [*shown, *others][:SHOWN], tried + clamped.size
        compared = self._compared(bench, form, made, got)
        return Body(
            [row.id for row in self.rows], 2 if self._clampable else 1, tried, wrong, compared, None, rule, shown
        )

    def _compared(self, bench: Bench, form: TabledForm, made: Images, got: Bits) -> int:
        """How many results of the other forms were compared; ProbeError if one has other bits."""
        compared = 0
        for row in self.rows:
            for from_memory in (False, True) if row.threads > WARP else (False,):
                if row == self.first and not from_memory:
                    continue
                compared += _same(bench, _form(row, bench), (form, made, got), from_memory)
        return compared


def _same(bench: Bench, other: TabledForm, base: tuple[TabledForm, Images, Bits], from_memory: bool) -> int:
    """How many results of another form were compared; it multiplies rows and columns of the first form's images.

    ProbeError unless all of D is the same.
    """
    form, made, results = base
    m, n, products = (other.row.shape.m, other.row.shape.n, other.row.products)
    count = max(1, min(len(made.a), OTHERS // (m * n * products)))
    rows, cols = (np.arange(wanted) % have for wanted, have in ((m, form.row.shape.m), (n, form.row.shape.n)))
    some = made.at(slice(count))
    scale = some.scales and BlockScales(some.scales.a[:, :, rows], some.scales.b[:, :, cols], some.scales.kind)
    part = Images(some.a[:, :, rows], some.b[:, :, cols], some.c[:, :, rows][..., cols], scale)
    expected = results[:count][:, :, rows][..., cols]
    got = _run(bench, other, part, from_memory)
    if (got != expected).any():
        place = "A in shared memory" if from_memory else "A in registers"
        raise ProbeError(
            f"{other.row.id} ({place}): {np.count_nonzero(got != expected)} of {got.size} results are "
            f"other bits than {form.row.id}'s."
        )
    return int(got.size)


def _form(instruction: Instruction, bench: Bench) -> TabledForm:
    tables = {fragment.operand: bench.known(fragment) for fragment in instruction.fragments}
    if missing := [operand for operand, table in tables.items() if table is None]:
        raise ProbeError(
            f"{instruction.id} is not measured: {', '.join(missing)} has no table; `tcprobe run` measures it."
        )
    scaling = [scale.operand for scale in instruction.scales]
    known = {o: table.selection(0) if o in scaling else table for o, table in tables.items() if table is not None}
    return TabledForm(instruction, known)


def _run(bench: Bench, form: TabledForm, made: Images, from_memory: bool = False) -> Bits:
    """D of images; a sparse form gets another legal metadata for each image."""
    metadata = None
    if form.row.metadata:
        legal = sparsity(form.row.metadata).legal
        metadata = np.resize(np.array(legal, np.uint8), len(made.a))
    launch = form.launch(Operands(made.a, made.b, made.c, metadata, made.scales), from_memory)
    return form.results(bench.run([launch])[0].copy())


def _scaled_dots(bench: Bench, form: TabledForm, shift: int) -> Dots | None:
    """Dot products under scales of A and B whose product is 2^shift; None if the type of the scales has none."""
    one, last = form.row.scales[0].one, (1 << dtype(form.row.scales[0].type).bits) - 1
    step = one & -one
    first, second = (one + step * part for part in (shift - shift // 2, shift // 2))
    if not all(step <= bits < last for bits in (first, second)):
        return None

    def dotted(a: Bits, b: Bits, c: Bits) -> Bits:
        return dots(bench, form, Images(a, b, c), (first, second))

    return dotted


def dots(bench: Bench, form: TabledForm, lines: Images, scale: tuple[int, int] | None = None) -> Bits:
    """D of dot products, as many per multiply as D's diagonal holds.

    `scale` has the bits of A's and of B's scales; all are one without it.
    """
    products, m, n, k = size_of(form.row)
    each, count = min(m, n), len(lines.c)
    padded = -(-count // (each * products)) * each * products
    a, b, c = (np.zeros((padded, *part.shape[1:]), part.dtype) for part in lines[:3])
    a[:count], b[:count], c[:count] = lines[:3]
    at = np.arange(each)
    image_a, image_b = (
        np.zeros((padded // each // products, products, line, k), part.dtype) for line, part in ((m, a), (n, b))
    )
    image_a[:, :, :each], image_b[:, :, :each] = (part.reshape(-1, products, each, k) for part in (a, b))
    image_c = np.zeros((len(image_a), products, m, n), c.dtype)
    image_c[:, :, at, at] = c.reshape(-1, products, each)
    d = _run(bench, form, Images(image_a, image_b, image_c, _even(form.row, image_a, scale)))
    return d[:, :, at, at].reshape(-1)[:count]


def _even(instruction: Instruction, images_: Bits, scale: tuple[int, int] | None) -> BlockScales | None:
    """The same scale everywhere in A, and in B."""
    if scale is None:
        return None
    blocks = instruction.scales[0].cols
    made = [
        np.full((*images_.shape[:2], line, blocks), bits, np.uint8)
        for line, bits in zip((instruction.shape.m, instruction.shape.n), scale, strict=True)
    ]
    return BlockScales(made[0], made[1], instruction.scales[0].type)


def wrong_cases(
    form: TabledForm, rule: Arithmetic | Integers, made: Images, results: tuple[Bits, Bits]
) -> tuple[int, list[WrongCase]]:
    """(how many results differ from the model's, the first of them)."""
    got, expected = results
    wrong = differ(form.types, rule, got, expected)
    return int(np.count_nonzero(wrong)), list(_wrong(form.types, made, results, np.argwhere(wrong)[:SHOWN]))


def _wrong(kinds: ElementTypes, made: Images, results: tuple[Bits, Bits], places: Ints) -> Iterator[WrongCase]:
    got, expected = results
    for image, product, row, col in places:
        at = (image, product, row, col)
        a, b, given = made.a[image, product, row], made.b[image, product, col], made.scales
        factors = ([], []) if given is None else (given.a[image, product, row], given.b[image, product, col])
        yield WrongCase(
            [_hex(kinds.a, v) for v in a],
            [_hex(kinds.b, v) for v in b],
            _hex(kinds.c, made.c[at]),
            _hex(kinds.d, got[at]),
            _hex(kinds.d, expected[at]),
            *([f"0x{int(scale):02x}" for scale in line] for line in factors),
        )


def _hex(kind: str, bits: np.integer[Any] | int) -> str:
    return f"0x{int(bits):0{-(-dtype(kind).bits // 4)}x}"


def _overflows(bench: Bench, form: TabledForm) -> Any:
    """Whether 1 plus the largest C "wraps" or "clamps"; ProbeError if it does neither."""
    row = form.row
    a, b = (np.zeros((1, row.stored), np.uint8) for _ in "ab")
    a[0, 0] = b[0, 0] = 1
    answer = int(dots(bench, form, Images(a, b, np.array([0x7FFFFFFF], np.uint32)))[0])
    if types(row).bit_op == "xor":
        b[0, 0] = 0
        answer = int(dots(bench, form, Images(a, b, np.array([0x7FFFFFFF], np.uint32)))[0])
    outcomes = {0x80000000: "wraps", 0x7FFFFFFF: "clamps"}
    if answer not in outcomes:
        raise ProbeError(f"{row.name}: 1 and the largest number give {answer:#x}.")
    return outcomes[answer]


def experiments() -> list[Dialogue]:
    """One experiment for each arithmetic."""
    return [NumericsExperiment(rows) for rows in together().values()]
