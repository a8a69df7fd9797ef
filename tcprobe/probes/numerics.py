"""The arithmetic of multiplies: directed products give its parameters, random and adversarial ones prove the model.

    tcprobe run --family numerics

Forms that differ only in m, n and layout are measured together. The first is measured in full. The others multiply the
same factors and must give the same bits; a warpgroup's forms also with A in shared memory.

Every result of a multiply by random and adversarial products is a case. Images take turns through the styles: any bits;
numbers of similar size; sums that nearly cancel; two products that cancel beside small ones at every depth; subnormals
and zeros; products below the least number of D; infinities and NaN.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tcprobe.arithmetic.floats import FORMATS, FloatFormat
from tcprobe.arithmetic.formats import BlockScales, block_sums, scaled
from tcprobe.arithmetic.gemm import integers_of, multiplied_integers
from tcprobe.arithmetic.model import dot, factor, multiplied
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers, forms_alike, types_of
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Array, Bits, Bools, Ints
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout
from tcprobe.probes.numerics_directed import parameters
from tcprobe.probes.numerics_dots import Directed, Dots
from tcprobe.probes.numerics_kernels import Operands, TabledForm, kernel
from tcprobe.probes.ptx import Kernel
from tcprobe.store.kinds.numerics import Body, WrongCase
from tcprobe.system.children import Pool

Random = np.random.Generator
KIND = "numerics"
DRAWS = 120  # how often styles draw, if there are many images
NEAR = 4  # exponents of numbers of similar size differ by at most twice as much
FIRST_BELOW = 6  # bits between the smallest number of D and what a least exponent can cut
SPECIAL = 0.01  # share of infinities, in images that have them


class MultiplySize(NamedTuple):
    """The shape of one multiply: how many products a warp computes, and m, n and stored k of each."""

    products: int
    m: int
    n: int
    k: int


class Images(NamedTuple):
    """A (images, products, m, k), B (.., n, k), C (.., m, n), as bits.

    `scales` are (images, products, row of A or column of B, block).
    """

    a: Bits
    b: Bits
    c: Bits
    scales: BlockScales | None = None

    def select(self, some: Any) -> Images:
        """The images that an index or a slice selects."""
        scales = self.scales and BlockScales(self.scales.a[some], self.scales.b[some], self.scales.kind)
        return Images(self.a[some], self.b[some], self.c[some], scales)


def floats(types: ElementTypes, mnk: MultiplySize, count: int, seed: int) -> Images:
    """`count` images of floats, of one style after another.

    If there are many, some consecutive images share what a style draws once.
    """
    rng = np.random.default_rng(seed)
    batch = max(1, count // DRAWS)
    several = mnk._replace(products=mnk.products * batch)
    images = [STYLES[n % len(STYLES)](types, several, rng) for n in range(-(-count // batch))]
    shapes = [(-1, mnk.products, *shape[1:]) for shape in _shapes(mnk)]
    a, b, c = (np.concatenate([image[j].reshape(shapes[j]) for image in images])[:count] for j in range(3))
    return Images(a, b, c)


def integers(types: ElementTypes, mnk: MultiplySize, count: int, seed: int) -> Images:
    """`count` images of integers.

    Every other image has C near both ends; in half of these, all factors are the type's highest bit.
    """
    rng = np.random.default_rng(seed)
    bits = [dtype(kind).bits for kind in (types.a, types.b)]
    a, b = (rng.integers(0, 1 << width, (count, *shape)) for width, shape in zip(bits, _shapes(mnk), strict=False))
    c = rng.integers(0, 1 << 32, (count, *_shapes(mnk)[2]))
    ends = rng.choice([0x7FFFFFFF, 0x80000000], c[1::2].shape) + rng.integers(-4096, 4096, c[1::2].shape)
    c[1::2] = ends & 0xFFFFFFFF
    a[1::4], b[1::4] = (1 << width - 1 for width in bits)
    return Images(a.astype(np.uint8), b.astype(np.uint8), c.astype(np.uint32))


def scales(kind: str, mnk: MultiplySize, blocks: int, count: int) -> BlockScales:
    """Scales of `count` images, taking turns: all one, near one, any. In some of the last there is a NaN."""
    rng, shapes = (np.random.default_rng(blocks), [(count, mnk.products, line, blocks) for line in (mnk.m, mnk.n)])
    unit, last = (127, 255) if kind == "ue8m0" else (0x38, 0x7F)
    factor_scales = []
    for shape in shapes:
        bits = np.full(shape, unit)
        bits[1::3] += rng.integers(-9, 10, bits[1::3].shape)
        bits[2::3] = rng.integers(0, last, bits[2::3].shape)
        bits[5::12][rng.random(bits[5::12].shape) < SPECIAL / 8] = last
        factor_scales.append(bits.astype(np.uint8))
    return BlockScales(factor_scales[0], factor_scales[1], kind)


def _shapes(mnk: MultiplySize) -> list[tuple[int, ...]]:
    products, m, n, k = mnk
    return [(products, m, k), (products, n, k), (products, m, n)]


def _numbers(floats: FloatFormat, shape: Sequence[int], rng: Random, exponents: Array) -> Bits:
    """Finite numbers with random signs and fractions; biased exponents are clipped to the format."""
    top = (1 << floats.bits - 1 - floats.fraction) - 1 - (floats.special == "ieee")
    fraction = rng.integers(0, 1 << floats.fraction, shape)
    bits = np.clip(exponents, 0, top).astype(np.int64) << floats.fraction | fraction
    if floats.special == "nan":
        bits = np.minimum(bits, (1 << floats.bits - 1) - 2)
    signed: Bits = (bits | rng.integers(0, 2, shape) << floats.bits - 1).astype(floats.word)
    return signed


def _forms(types: ElementTypes) -> list[FloatFormat]:
    return [FORMATS[kind] for kind in (types.a, types.b, types.c)]


def _any(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Exponents from the whole range of each type."""
    return [
        _numbers(form, shape, rng, rng.integers(0, 1 << form.bits - 1 - form.fraction, shape))
        for form, shape in zip(_forms(types), _shapes(mnk), strict=True)
    ]


def _like(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Exponents near each other; C's are near the products'."""
    a, b, c = forms = _forms(types)
    tops = [(1 << form.bits - 1 - form.fraction) - 1 for form in forms]
    middles = [int(rng.integers(top // 4, top - top // 4 + 1)) for top in tops]
    middles[2] = middles[0] - a.bias + middles[1] - b.bias + c.bias
    return [
        _numbers(form, shape, rng, middle + rng.integers(-NEAR, NEAR + 1, shape))
        for form, shape, middle in zip(forms, _shapes(mnk), middles, strict=True)
    ]


def _cancelling(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Pairs of products that cancel, except for a few whose last bit differs."""
    a, b, c = _like(types, mnk, rng)
    order = rng.permutation(mnk.k)
    half = mnk.k // 2
    ours, theirs = order[:half], order[half : 2 * half]
    a[..., theirs] = a[..., ours] ^ (1 << FORMATS[types.a].bits - 1)
    b[..., theirs] = b[..., ours]
    last = 1 << 13 if types.a == "tf32" else 1
    a[..., theirs] ^= (rng.random(a[..., theirs].shape) < 0.2).astype(a.dtype) * a.dtype.type(last)
    c[rng.random(c.shape) < 0.5] = 0
    return [_finite(FORMATS[types.a], a), b, c]


def _finite(floats: FloatFormat, bit_patterns: Bits) -> Bits:
    """The bits, with infinities and NaN made finite."""
    full_exponent = (1 << floats.bits - 1 - floats.fraction) - 1
    full = (bit_patterns.astype(np.int64) >> floats.fraction) & full_exponent == full_exponent
    if floats.special == "none" or (floats.special == "nan" and floats.fraction == 0):
        return bit_patterns
    last = (bit_patterns & ((1 << floats.fraction) - 1)) == (1 << floats.fraction) - 1
    ieee = floats.special == "ieee"
    changed = bit_patterns ^ (1 << floats.fraction if ieee else 1)
    return np.where(full if ieee else full & last, changed, bit_patterns).astype(bit_patterns.dtype)


def _beside_cancelling(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Large products at two k cancel; the others are at any depth below: shows what alignment keeps."""
    (fa, fb, fc), (sa, sb, sc) = _forms(types), _shapes(mnk)
    tops = [min((1 << f.bits - 1 - f.fraction) - 2, f.bias + 50) for f in (fa, fb)]
    a, b = (
        _numbers(f, s, rng, top - rng.integers(min(3, top), min(17, top + 1), (*s[:-1], 1)) - rng.integers(0, 3, s))
        for f, s, top in zip((fa, fb), (sa, sb), tops, strict=True)
    )
    i, j = rng.choice(mnk.k, 2, replace=False)
    a[..., i] = _numbers(fa, sa[:-1], rng, np.full(sa[:-1], tops[0]))
    b[..., i] = _numbers(fb, sb[:-1], rng, np.full(sb[:-1], tops[1]))
    a[..., j], b[..., j] = a[..., i] ^ (1 << fa.bits - 1), b[..., i]
    c = _numbers(fc, sc, rng, tops[0] - fa.bias + tops[1] - fb.bias + fc.bias - rng.integers(0, 40, sc))
    c[rng.random(sc) < 0.7] = 0
    return [a, b, c]


def _small(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Subnormals, least exponents and zeros; every other line has any exponents, and some rows of A are zero."""
    matrices = []
    for form, shape in zip(_forms(types), _shapes(mnk), strict=True):
        top = (1 << form.bits - 1 - form.fraction) - 2
        exponents = rng.integers(0, 3, shape)
        exponents[:, ::2] = rng.integers(0, top, exponents[:, ::2].shape)
        bits = _numbers(form, shape, rng, exponents)
        bits[rng.random(shape) < 0.2] = 0
        bits[rng.random(shape) < 0.05] = 1 << form.bits - 1
        matrices.append(bits)
    matrices[0][rng.random(_shapes(mnk)[0][:-1]) < 0.2] = 0
    return matrices


def _low_products(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """The smallest number of D beside a product below it, which a least exponent would cut.

    Types that do not go so low are clipped to their least exponents.
    """
    a, b, c = _forms(types)
    low = FORMATS[types.d].least - FORMATS[types.d].fraction + a.bias + b.bias
    sa, sb, sc = _shapes(mnk)
    i, j = rng.choice(mnk.k, 2, replace=False)
    factors = [np.zeros(sa, a.word), np.zeros(sb, b.word)]
    depths = np.broadcast_to(FIRST_BELOW + np.arange(mnk.m) % 8, sa[:-1])
    for k, below in ((i, 0 * depths), (j, depths)):
        factors[0][..., k] = _numbers(a, sa[:-1], rng, low // 2 - below)
        factors[1][..., k] = _numbers(b, sb[:-1], rng, np.full(sb[:-1], low - low // 2))
    factors = [bits & ~form.word((1 << form.fraction) - 1) for form, bits in zip((a, b), factors, strict=True)]
    own = _numbers(c, sc, rng, np.zeros(sc)) & c.word((1 << c.bits - 1) | 3)
    own[rng.random(sc) < 0.8] = 0
    return [*factors, own]


def _special(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Infinities, NaN and the largest patterns among others."""
    matrices = _any(types, mnk, rng)
    for bits, form in zip(matrices, _forms(types), strict=True):
        if form.special == "ieee":
            bits[rng.random(bits.shape) < SPECIAL] = form.infinity
            bits[rng.random(bits.shape) < SPECIAL / 2] = form.infinity | 1 << form.bits - 1
        if form.special != "none":
            bits[rng.random(bits.shape) < SPECIAL / 8] = (1 << form.bits - 1) - 1
    return matrices


TWICE = (_beside_cancelling, _small, _low_products)
STYLES = (_any, _like, _cancelling, *TWICE, _special, *TWICE)


CASES = 100_000  # at least, of each arithmetic
SHOWN = 8
UNFIT_SHOWN = 64  # cases of a form that the model does not describe
OTHERS = 16_384  # results of each other form that are compared
AT_ONCE = 8  # images of a thread's piece of work


def size_of(instruction: Instruction) -> MultiplySize:
    """The sizes of one multiply."""
    return MultiplySize(instruction.products, instruction.shape.m, instruction.shape.n, instruction.stored)


def draw_images(instruction: Instruction, count: int, seed: int = 0) -> Images:
    """Random and adversarial images for a form."""
    kinds, size = types_of(instruction), size_of(instruction)
    batch = (floats if kinds.is_float else integers)(kinds, size, count, seed)
    if not instruction.scales:
        return batch
    scale_a = instruction.scales[0]
    return batch._replace(scales=scales(scale_a.type, size, scale_a.cols, count))


def model_results(
    instruction: Instruction, arithmetic: Arithmetic | Integers, batch: Images, satfinite: bool = False
) -> Bits:
    """D of images by the model, as bits."""
    kinds = types_of(instruction)
    if isinstance(arithmetic, Integers):
        numbers = (integers_of(kinds.a, batch.a), integers_of(kinds.b, batch.b), integers_of("s32", batch.c))
        return (multiplied_integers(kinds, arithmetic, numbers, satfinite) & 0xFFFFFFFF).astype(np.uint32)
    if arithmetic.fraction_bits is None:
        factors = np.broadcast_arrays(batch.a[..., :, None, :], batch.b[..., None, :, :])
        return dot(kinds, arithmetic, (factors[0], factors[1], batch.c))
    a, b = factor("a", kinds.a, arithmetic, batch.a), factor("b", kinds.b, arithmetic, batch.b)
    count, every = arithmetic.summed_first, slice(None)
    if batch.scales and count == 1:
        a, b = scaled(a, batch.scales.kind, batch.scales.a), scaled(b, batch.scales.kind, batch.scales.b)
    lines = a.at((..., every, None, every)), b.at((..., None, every, every))
    if batch.scales and count > 1:  # products are summed before they are scaled
        lines = block_sums(lines, batch.scales, count)
        blocks = tuple(tuple(sorted({k // count for k in group})) for group in arithmetic.groups)
        arithmetic = msgspec.structs.replace(arithmetic, groups=blocks, summed_first=1)
    return multiplied(kinds, arithmetic, lines, batch.c)


def parallel_results(
    instruction: Instruction, arithmetic: Arithmetic | Integers, batch: Images, satfinite: bool = False
) -> Bits:
    """As `model_results`, in several threads."""

    def chunk(start: int) -> Bits:
        return model_results(instruction, arithmetic, batch.select(slice(start, start + AT_ONCE)), satfinite)

    with Pool(min(8, os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(chunk, range(0, len(batch.a), AT_ONCE))))


def differences(kinds: ElementTypes, arithmetic: Arithmetic | Integers, got: Bits, expected: Bits) -> Bools:
    """Where results differ; any NaN equals any other if the form gives several."""
    other: Bools = got != expected
    if isinstance(arithmetic, Integers) or arithmetic.nan:
        return other
    d = FORMATS[kinds.d]
    got_nan, expected_nan = ((bits & (1 << d.bits - 1) - 1) > d.infinity for bits in (got, expected))
    return other & ~(got_nan & expected_nan)


@dataclass(frozen=True)
class NumericsExperiment(Dialogue):
    """The arithmetic of some forms; at least `cases` results of the first are compared with the model."""

    rows: tuple[Instruction, ...]
    cases: int = CASES
    kind = KIND

    @property
    def id(self) -> str:
        return self.first.id

    @property
    def first(self) -> Instruction:
        """The form that is measured in full."""
        return self.rows[0]

    @property
    def target(self) -> Target:
        return self.first.target

    def kernels(self) -> list[Kernel]:
        """One kernel for each form; for integers, a second with .satfinite for the first form."""
        return [*map(kernel, self.rows), *(kernel(row, True) for row in self.rows[:1] if self._clampable)]

    @property
    def _clampable(self) -> bool:
        kinds = types_of(self.first)
        return not kinds.is_float and kinds.a != "b1"

    def measure(self, bench: Bench) -> Readout:
        """ "body": the Body as JSON, since the proof needs all cases."""
        form = _tabled_form(self.first, bench)
        count = -(-self.cases // (self.first.shape.m * self.first.shape.n * self.first.products))
        batch = draw_images(self.first, count, seed=len(self.id))
        body = self._floats(bench, form, batch) if form.types.is_float else self._integers(bench, form, batch)
        return {"body": np.frombuffer(msgspec.json.encode(body), np.uint8)}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The parameters, and the cases that they rest on."""
        return msgspec.json.decode(reading["body"].tobytes(), type=Body)

    def _floats(self, bench: Bench, form: TabledForm, batch: Images) -> Body:
        directed = Directed(
            form.types,
            self.first.stored,
            lambda a, b, c: dots(bench, form, Images(a, b, c)),
            partial(_scaled_dots, bench, form) if self.first.scales else None,
        )
        got = _run(bench, form, batch)
        try:
            rule = parameters(directed)
        except ProbeError as error:
            spread = np.linspace(0, got.size - 1, UNFIT_SHOWN).astype(np.int64)
            places = np.stack(np.unravel_index(spread, got.shape), axis=-1)
            cases = _wrong(form.types, batch, (got, got), places)
            examples = [msgspec.structs.replace(case, model=None) for case in cases]
            return Body([self.id], directed.cases, got.size, got.size, 0, None, None, examples, str(error))
        wrong, examples = wrong_cases(form, rule, batch, (got, parallel_results(self.first, rule, batch)))
        compared = self._compare_others(bench, form, batch, got)
        return Body([row.id for row in self.rows], directed.cases, got.size, wrong, compared, rule, None, examples)

    def _integers(self, bench: Bench, form: TabledForm, batch: Images) -> Body:
        clamping = TabledForm(form.row, form.tables, True)
        rule = Integers(_overflow_rule(bench, form), _overflow_rule(bench, clamping) if self._clampable else None)
        got = _run(bench, form, batch)
        wrong, examples = wrong_cases(form, rule, batch, (got, parallel_results(self.first, rule, batch)))
        tried = got.size
        if self._clampable:
            clamped, expected = _run(bench, clamping, batch), parallel_results(self.first, rule, batch, satfinite=True)
            more, others = wrong_cases(form, rule, batch, (clamped, expected))
            wrong, examples, tried = wrong + more, [*examples, *others][:SHOWN], tried + clamped.size
        compared = self._compare_others(bench, form, batch, got)
        ids, directed = [row.id for row in self.rows], 2 if self._clampable else 1
        return Body(ids, directed, tried, wrong, compared, None, rule, examples)

    def _compare_others(self, bench: Bench, form: TabledForm, batch: Images, got: Bits) -> int:
        """How many results of the other forms were compared; ProbeError if one has other bits."""
        others = [(row, from_memory) for row in self.rows for from_memory in (False, True)[: 1 + (row.threads > WARP)]]
        return sum(
            _compare_form(bench, _tabled_form(row, bench), (form, batch, got), from_memory)
            for row, from_memory in others
            if row != self.first or from_memory
        )


def _compare_form(bench: Bench, other: TabledForm, base: tuple[TabledForm, Images, Bits], from_memory: bool) -> int:
    """How many results of another form were compared; it multiplies rows and columns of the first form's images.

    ProbeError unless all of D is the same.
    """
    form, batch, results = base
    m, n, products = (other.row.shape.m, other.row.shape.n, other.row.products)
    count = max(1, min(len(batch.a), OTHERS // (m * n * products)))
    rows, cols = (np.arange(size) % extent for size, extent in ((m, form.row.shape.m), (n, form.row.shape.n)))
    head = batch.select(slice(count))
    scale = head.scales and BlockScales(head.scales.a[:, :, rows], head.scales.b[:, :, cols], head.scales.kind)
    part = Images(head.a[:, :, rows], head.b[:, :, cols], head.c[:, :, rows][..., cols], scale)
    expected = results[:count][:, :, rows][..., cols]
    got = _run(bench, other, part, from_memory)
    if (got != expected).any():
        place = "A in shared memory" if from_memory else "A in registers"
        raise ProbeError(
            f"{other.row.id} ({place}): {np.count_nonzero(got != expected)} of {got.size} results are "
            f"other bits than {form.row.id}'s."
        )
    return int(got.size)


def _tabled_form(instruction: Instruction, bench: Bench) -> TabledForm:
    tables = {fragment.operand: bench.known_table(fragment) for fragment in instruction.fragments}
    if missing := [operand for operand, table in tables.items() if table is None]:
        raise ProbeError(
            f"{instruction.id} is not measured: {', '.join(missing)} has no table; `tcprobe run` measures it."
        )
    scaling = [scale.operand for scale in instruction.scales]
    in_use = {o: table.selection(0) if o in scaling else table for o, table in tables.items() if table is not None}
    return TabledForm(instruction, in_use)


def _run(bench: Bench, form: TabledForm, batch: Images, from_memory: bool = False) -> Bits:
    """D of images; a sparse form gets another legal metadata for each image."""
    metadata = None
    if form.row.metadata:
        legal = sparsity(form.row.metadata).legal
        metadata = np.resize(np.array(legal, np.uint8), len(batch.a))
    launch = form.launch(Operands(batch.a, batch.b, batch.c, metadata, batch.scales), from_memory)
    return form.results(bench.run([launch])[0].copy())


def _scaled_dots(bench: Bench, form: TabledForm, shift: int) -> Dots | None:
    """Dot products under scales of A and B whose product is 2^shift; None if the type of the scales has none."""
    unit, last = form.row.scales[0].one, (1 << dtype(form.row.scales[0].type).bits) - 1
    step = unit & -unit
    first, second = (unit + step * part for part in (shift - shift // 2, shift // 2))
    if not all(step <= bits < last for bits in (first, second)):
        return None

    return lambda a_bits, b_bits, c_bits: dots(bench, form, Images(a_bits, b_bits, c_bits), (first, second))


def dots(bench: Bench, form: TabledForm, batch: Images, scale: tuple[int, int] | None = None) -> Bits:
    """D of dot products, as many per multiply as D's diagonal holds.

    `scale` has the bits of A's and of B's scales; all are one without it.
    """
    products, m, n, k = size_of(form.row)
    each, count = min(m, n), len(batch.c)
    padded = -(-count // (each * products)) * each * products
    a, b, c = (np.zeros((padded, *part.shape[1:]), part.dtype) for part in batch[:3])
    a[:count], b[:count], c[:count] = batch[:3]
    diagonal = np.arange(each)
    image_a, image_b = (
        np.zeros((padded // each // products, products, line, k), part.dtype) for line, part in ((m, a), (n, b))
    )
    image_a[:, :, :each], image_b[:, :, :each] = (part.reshape(-1, products, each, k) for part in (a, b))
    image_c = np.zeros((len(image_a), products, m, n), c.dtype)
    image_c[:, :, diagonal, diagonal] = c.reshape(-1, products, each)
    scale_bits = None
    if scale is not None:
        blocks, scale_type = form.row.scales[0].cols, form.row.scales[0].type
        of_a, of_b = (
            np.full((*image_a.shape[:2], line, blocks), bits, np.uint8)
            for line, bits in zip((m, n), scale, strict=True)
        )
        scale_bits = BlockScales(of_a, of_b, scale_type)
    d = _run(bench, form, Images(image_a, image_b, image_c, scale_bits))
    return d[:, :, diagonal, diagonal].reshape(-1)[:count]


def wrong_cases(
    form: TabledForm, rule: Arithmetic | Integers, batch: Images, compared: tuple[Bits, Bits]
) -> tuple[int, list[WrongCase]]:
    """(how many results differ from the model's, the first of them)."""
    got, expected = compared
    wrong = differences(form.types, rule, got, expected)
    return int(np.count_nonzero(wrong)), list(_wrong(form.types, batch, compared, np.argwhere(wrong)[:SHOWN]))


def _wrong(kinds: ElementTypes, batch: Images, compared: tuple[Bits, Bits], places: Ints) -> Iterator[WrongCase]:
    got, expected = compared
    for image, product, row, col in places:
        element = (image, product, row, col)
        a, b, blocks = batch.a[image, product, row], batch.b[image, product, col], batch.scales
        factors = ([], []) if blocks is None else (blocks.a[image, product, row], blocks.b[image, product, col])
        yield WrongCase(
            [dtype(kinds.a).hexadecimal(v) for v in a],
            [dtype(kinds.b).hexadecimal(v) for v in b],
            dtype(kinds.c).hexadecimal(batch.c[element]),
            dtype(kinds.d).hexadecimal(got[element]),
            dtype(kinds.d).hexadecimal(expected[element]),
            *([f"0x{int(scale):02x}" for scale in line] for line in factors),
        )


def _overflow_rule(bench: Bench, form: TabledForm) -> Any:
    """Whether 1 plus the largest C "wraps" or "clamps"; ProbeError if it does neither."""
    row = form.row
    a, b = (np.zeros((1, row.stored), np.uint8) for _ in FACTORS)
    a[0, 0], b[0, 0] = 1, types_of(row).bit_op != "xor"  # whose AND or XOR counts as 1
    answer = int(dots(bench, form, Images(a, b, np.array([0x7FFFFFFF], np.uint32)))[0])
    outcomes = {0x80000000: "wraps", 0x7FFFFFFF: "clamps"}
    if answer not in outcomes:
        raise ProbeError(f"{row.name}: 1 and the largest number give {answer:#x}.")
    return outcomes[answer]


def experiments() -> list[Dialogue]:
    """One experiment for each arithmetic."""
    return [NumericsExperiment(rows) for rows in forms_alike().values()]
