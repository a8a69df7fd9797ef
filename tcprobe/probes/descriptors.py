"""Which elements of shared memory a descriptor leads to; and products through descriptors.

CODED_BYTES of shared memory encode the number of every element there. The other factor selects one k for each row of D
(A in registers, if B is coded) or each column (B, if A is coded). So every D slot gets the number of one element of
memory, for any strides, even if matrix elements share an address.

    tcprobe run --family descriptors

The fragments of wgmma must be measured first: their tables come from the results folder, or from the published results.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.arch import Target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, SharedOperand, sparsity
from tcprobe.isa.names import resolve
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.descriptor import SWIZZLES, UNIT, Descriptor, offsets, packed_descriptor
from tcprobe.layout.structure import NIBBLE, picked_k
from tcprobe.layout.table import Table, Tables
from tcprobe.probes.experiment import Bench, Context, Dialogue, FormDialogue, Readout, known_tables
from tcprobe.probes.ptx import Kernel, Launch, thread_bytes
from tcprobe.probes.slots import decode, element_numbers, from_slots, into_slots, pack
from tcprobe.probes.sparse import columns, random_metadata
from tcprobe.probes.wgmma import (
    LAST,
    CodedRun,
    coded_images,
    decode_answers,
    k_bytes,
    kernel,
    ones_by_k,
    shared_operand,
    uniform,
)
from tcprobe.store.kinds import descriptors as saved

KIND = "descriptors"
CODED_BYTES = 1 << 16
DESCRIPTORS = 84  # at most, of each case
WIDTHS = {"f32.f16.f16": 16, "f32.tf32.tf32": 32, "s32.s8.s8": 8, "s32.b1.b1.and.popc": 1}  # bits, by a form
SPARSE = tuple(kind for kind, bits in WIDTHS.items() if bits > 1)
LINES = {"a_smem": 64, "b_smem": 128}  # N of the form, by coded operand; A always has 64 rows


@dataclass(frozen=True)
class Case:
    """Descriptors for one operand of a form, with one swizzle and one major."""

    operand: SharedOperand
    major: str
    swizzle: int
    descriptors: tuple[Descriptor, ...]

    @property
    def instruction(self) -> Instruction:
        return self.operand.instruction

    @property
    def majors(self) -> tuple[str, str]:
        """Majors of A and B; k is contiguous in the factor that is not coded."""
        return (self.major, "k") if self.operand.held.name == "a_smem" else ("k", self.major)


def cases(count: int = DESCRIPTORS) -> Iterator[Case]:
    """Every width, operand, major and swizzle, dense and sparse."""
    forms = [*product([""], WIDTHS, LINES.items()), *product([".sp"], SPARSE, LINES.items())]
    for sparse, kind, (name, n) in forms:
        k = 256 // WIDTHS[kind] * (2 if sparse else 1)
        row = resolve(f"wgmma.mma_async{sparse}.m64n{n}k{k}.{kind}").instruction
        operand = shared_operand(row, name)
        for major, swizzle in product(operand.held.majors, SWIZZLES):
            yield Case(operand, major, swizzle, random_descriptors(operand, major, swizzle, count))


def random_descriptors(operand: SharedOperand, major: str, swizzle: int, count: int) -> tuple[Descriptor, ...]:
    """Up to `count` random descriptors, the same in every run; also strides of zero, odd starts, all base offsets."""
    rng = random.Random(f"{operand.id} {major} {swizzle}")
    descriptors: list[Descriptor] = [Descriptor(128, 256, swizzle)]
    while len(descriptors) < count:
        most = CODED_BYTES >> rng.randrange(1, 8)
        lbo, sbo = (rng.choice((0, UNIT, rng.randrange(0, most, UNIT), rng.randrange(0, most, UNIT))) for _ in "ls")
        start = rng.choice((0, 0, rng.randrange(0, 2048, 128), rng.randrange(0, 2048, UNIT)))
        one_of = Descriptor(lbo, sbo, swizzle, rng.choice((0, 0, *range(8))), start)
        if bytes_of(operand, one_of, major).max() + start < CODED_BYTES - 1024:
            descriptors.append(one_of)
    return tuple(dict.fromkeys(descriptors))


def bytes_of(operand: SharedOperand, descriptor: Descriptor, major: str) -> Ints:
    """The byte offset of every element from the start address: (rows, cols)."""
    row, col = np.indices((operand.held.rows, operand.held.cols))
    line, k = (row, col) if operand.held.name == "a_smem" else (col, row)
    places: Ints = offsets(descriptor, major, line, k, operand.held.slot_bits)
    return places


def numbers_of(operand: SharedOperand, descriptor: Descriptor, major: str) -> Ints:
    """As `bytes_of`, but the number of the element in shared memory."""
    k = np.indices((operand.held.rows, operand.held.cols))[1 if operand.held.name == "a_smem" else 0]
    bits = operand.held.slot_bits
    numbers: Ints = ((bytes_of(operand, descriptor, major) + descriptor.start) * 8 + k * bits % 8) // bits
    return numbers


def launch(case: Case, tables: Tables) -> Launch:
    """All descriptors of a case; `tables` are the measured tables of the form's fragments."""
    row, factor = case.instruction, case.operand.held
    by_b = factor.name == "a_smem"
    others = ones_by_k(row) if by_b else _registers_by_k(row, tables["a"])
    still = packed_descriptor(k_bytes(shared_operand(row, "b_smem").held)).encode() if by_b else 0
    pairs = [(descriptor.encode(), still) for descriptor in case.descriptors]
    size = 4 * row.fragment("d").slots * len(pairs) * len(others)
    run = CodedRun(row, "codes", factor.name, case.majors, metadata=uniform(row, _metadata(case, len(others))))
    return run.launch((coded_images(factor, CODED_BYTES), others), pairs, (len(pairs), len(others)), size)


def _metadata(case: Case, image_count: int) -> list[int]:
    """The metadata value (4 bits) for each image of the other factor: it selects one half of B, then the other."""
    if case.operand.held.name == "a_smem" or case.instruction.metadata is None:
        return [NIBBLE] * image_count
    return [NIBBLE] * (image_count // 2) + [LAST] * (image_count // 2)


def _registers_by_k(instruction: Instruction, table: Table) -> Bytes:
    """Images of A in registers: in image y, row m has a single one, at (m + y * 64) % columns. Twice if A is sparse."""
    a = instruction.fragment("a")
    index, used = element_numbers(table, a)
    m, s = np.divmod(index, a.cols)
    shifts = np.arange(-(-a.cols // a.rows))[:, None]
    registers = np.zeros((len(shifts), a.slots), np.uint64)
    registers[:, used] = np.where(s == (m + shifts * a.rows) % a.cols, a.one, 0)
    return np.concatenate([pack(registers, a.slot_bits)] * (2 if instruction.metadata else 1))


def numbers_in_memory(case: Case, tables: Tables, raw: Bytes) -> Ints:
    """By descriptor, the number in memory of every element: (descriptors, rows, cols)."""
    row, factor = case.instruction, case.operand.held
    d = row.fragment("d")
    index, used = element_numbers(tables["d"], d)
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, len(case.descriptors), d.slots)
    numbers = decode_answers(row, words, len(coded_images(factor, CODED_BYTES)))[:, :, used]
    m, n = np.divmod(index, d.cols)
    in_memory = np.full((len(case.descriptors), factor.rows, factor.cols), -1)
    values = _metadata(case, len(numbers))
    turns = len(numbers) // len(set(values))
    for y, answer_numbers in enumerate(numbers):
        if factor.name == "a_smem":
            in_memory[:, m, (n + y * d.cols) % factor.cols] = answer_numbers
        else:
            in_memory[:, picked_k(row, values[y])[(m + y % turns * d.rows) % row.stored], n] = answer_numbers
    return in_memory


class CaseJudgement(NamedTuple):
    """How many elements of a case are where the formula predicts, and what else follows from the descriptors."""

    case: Case
    elements: int
    agree: int
    # of the base offset: (descriptors that it explains, descriptors that tell readings apart)
    readings: dict[str, tuple[int, int]]
    # by field: (descriptors that map as if it were 0, descriptors where it is not 0)
    without: dict[str, tuple[int, int]]
    first: str | None  # the first misfit, in words


def judge(case: Case, seen: Ints) -> CaseJudgement:
    """Compare the formula with what was measured."""
    predicted = _predict(case, case.descriptors)
    based = [j for j, descriptor in enumerate(case.descriptors) if descriptor.base_offset]
    ways = {"subtracted": 1, "added": -1, "ignored": 0}  # times the base offset
    starts = [case.descriptors[j] for j in based]
    maps = {
        way: _predict(case, [start._replace(base_offset=sign * start.base_offset) for start in starts])
        for way, sign in ways.items()
    }
    telling = [j for j in range(len(based)) if len({maps[way][j].tobytes() for way in maps}) == len(maps)]
    explained = {way: sum(bool((moved[j] == seen[based[j]]).all()) for j in telling) for way, moved in maps.items()}
    readings = {way: (count, len(telling)) for way, count in explained.items()}
    without = {}
    for field in ("lbo", "sbo", "base_offset", "start"):
        nonzero = [j for j, descriptor in enumerate(case.descriptors) if getattr(descriptor, field)]
        zero = _predict(case, [case.descriptors[j]._replace(**{field: 0}) for j in nonzero])
        without[field] = (sum(bool((zero[i] == seen[j]).all()) for i, j in enumerate(nonzero)), len(nonzero))
    agree = int((predicted == seen).sum())
    return CaseJudgement(case, seen.size, agree, readings, without, _misfit(case, predicted, seen))


def _misfit(case: Case, formula: Ints, seen: Ints) -> str | None:
    """The first element that the formula does not explain, and the elements along its line; None if there is none."""
    wrong = np.argwhere(formula != seen)
    if not len(wrong):
        return None
    number, row, col = wrong[0].tolist()
    along = seen[number, row] if case.operand.held.name == "a_smem" else seen[number, :, col]
    words = f"row {row}, column {col}: said {formula[number, row, col]}; along k measured {along.tolist()}"
    return f"{case.descriptors[number]}: {words}"


def _predict(case: Case, descriptors: Sequence[Descriptor]) -> Ints:
    shape = (len(descriptors), case.operand.held.rows, case.operand.held.cols)
    maps = [numbers_of(case.operand, descriptor, case.major) for descriptor in descriptors]
    return np.stack(maps) if maps else np.zeros(shape, np.int64)


# products


@dataclass(frozen=True)
class RandomProducts:
    """Random matrices behind random descriptors: the launch, and the expected D, (count, m, n)."""

    instruction: Instruction
    coded: str  # "a_smem": A is in shared memory; "b_smem": A is in registers
    majors: tuple[str, str]
    launch: Launch
    d: Ints

    def wrong(self, table: Table, raw: Bytes) -> int:
        """How many products differ from the expected ones; `table` is D's."""
        d = self.instruction.fragment("d")
        numbers = from_slots(table, d, decode(raw.reshape(len(self.d), -1), d.type))
        return int((numbers.reshape(self.d.shape) != self.d).any(axis=(1, 2)).sum())


def products(instruction: Instruction, coded: str, tables: Tables, count: int, seed: int) -> Iterator[RandomProducts]:
    """`count` products for every pair of majors that A and B may have."""
    for majors in _majors(instruction, coded):
        yield _products(instruction, coded, majors, tables, (count, seed))


def _majors(instruction: Instruction, coded: str) -> list[tuple[str, str]]:
    """Pairs of majors of A and B."""
    both = instruction.described[0].held.majors
    return list(product(both if coded == "a_smem" else ("k",), both))


def _selector(instruction: Instruction, coded: str, majors: tuple[str, str]) -> int:
    """A random selector of the metadata, the same in every run; 0 for a dense form."""
    count = len(instruction.metadata.selectors) if instruction.metadata else 1
    return random.Random(f"{instruction.id} {coded} {majors}").randrange(count)


def _products(
    instruction: Instruction, coded: str, majors: tuple[str, str], tables: Tables, draw: tuple[int, int]
) -> RandomProducts:
    """`draw` is (how many, seed)."""
    count, seed = draw
    rng = np.random.default_rng(
        [seed, instruction.shape.n, instruction.shape.k, coded == "a_smem", *(m == "mn" for m in majors)]
    )
    a, b = (shared_operand(instruction, name) for name in ("a_smem", "b_smem"))
    left, right = _random(rng, a, count), _random(rng, b, count)
    a_desc, b_desc = ([free(rng, x, major) for _ in range(count)] for x, major in ((a, majors[0]), (b, majors[1])))
    b_images = np.stack([image(b, right[j], b_desc[j], majors[1]) for j in range(count)])
    if coded == "a_smem":
        a_images = np.stack([image(a, left[j], a_desc[j], majors[0]) for j in range(count)])
        images, pairs = ((a_images, b_images), [(x.encode(), y.encode()) for x, y in zip(a_desc, b_desc, strict=True)])
    else:
        slots = into_slots(tables["a"], instruction.fragment("a"), patterns(a, left).reshape(count, -1))
        images, pairs = ((b_images, pack(slots, a.held.slot_bits)), [(y.encode(), 0) for y in b_desc])
    size = count * instruction.threads * thread_bytes(instruction.fragment("d"))
    e = instruction.metadata
    selector = _selector(instruction, coded, majors)
    metadata = random_metadata(sparsity(e), count, rng, instruction.threads) if e else None
    run = CodedRun(instruction, "raw", coded, majors, selector, metadata=metadata).launch(
        images, pairs, (count, 1), size
    )
    if e is None or metadata is None:
        return RandomProducts(instruction, coded, majors, run, left @ right)
    k = columns(e, tables["e"].selection(selector), metadata)
    b_rows = np.stack([right[j][k[j]] for j in range(count)])
    return RandomProducts(instruction, coded, majors, run, np.einsum("cms,cmsn->cmn", left, b_rows))


def _random(rng: np.random.Generator, operand: SharedOperand, count: int) -> Ints:
    low, high = {"b1": (0, 1), "u8": (0, 2)}.get(operand.held.type, (-2, 2))
    return rng.integers(low, high + 1, (count, operand.held.rows, operand.held.cols))


def free(rng: np.random.Generator, operand: SharedOperand, major: str) -> Descriptor:
    """A random descriptor under which no two elements share an address."""
    while True:
        swizzle = int(rng.choice(list(SWIZZLES)))
        lbo, sbo = (int(rng.integers(1, 1 << rng.integers(4, 11))) * UNIT for _ in "ls")
        descriptor = Descriptor(lbo, sbo, swizzle, int(rng.integers(0, 8)), int(rng.integers(0, 64)) * UNIT)
        numbers = numbers_of(operand, descriptor, major)
        if numbers.max() * operand.held.slot_bits // 8 < CODED_BYTES - 1024 and len(np.unique(numbers)) == numbers.size:
            return descriptor


def image(operand: SharedOperand, matrix: Ints, descriptor: Descriptor, major: str) -> Bytes:
    """Shared memory with a matrix behind the descriptor; all other elements are one."""
    bits = operand.held.slot_bits
    memory = np.full(CODED_BYTES * 8 // bits, patterns(operand, np.ones(1, np.int64))[0], np.uint64)
    memory[numbers_of(operand, descriptor, major)] = patterns(operand, matrix)
    raw: Bytes = pack(memory[None], bits)[0]
    return raw


def patterns(operand: SharedOperand, integers: Ints) -> Any:
    """The bit patterns of whole numbers in the operand's type."""
    low = int(integers.min())
    bits = [dtype(operand.held.type).pattern(v, operand.held.slot_bits) for v in range(low, int(integers.max()) + 1)]
    return np.array(bits, np.uint64)[integers - low]


PRODUCTS = 12  # for each form, place of A and pair of majors
CODED = ("b_smem", "a_smem")
PRODUCT_N = (8, 24, 64, 128, 256)


def _tables(instruction: Instruction, bench: Bench) -> Tables:
    return known_tables(instruction, bench.known_table, "tcprobe run 'wgmma*'")


@dataclass(frozen=True)
class DescriptorExperiment(Dialogue):
    """All descriptors of a case."""

    case: Case
    kind = KIND

    @property
    def id(self) -> str:
        return f"{self.case.operand.id}.{self.case.major}.{self.case.swizzle}"

    @property
    def target(self) -> Target:
        return self.case.instruction.target

    def kernels(self) -> list[Kernel]:
        """The form's kernel with the operand coded."""
        return [kernel(self.case.instruction, "codes", self.case.operand.held.name, self.case.majors)]

    def measure(self, bench: Bench) -> Readout:
        """ "seen": by descriptor, the number in memory of every element."""
        tables = _tables(self.case.instruction, bench)
        return {"seen": numbers_in_memory(self.case, tables, bench.run([launch(self.case, tables)])[0])}

    def conclude(self, reading: Readout, context: Context) -> saved.Body:
        """How many elements are where the formula predicts."""
        case, factor = self.case, self.case.operand.held
        found = judge(case, reading["seen"])
        ignored = [field for field, (same, count) in found.without.items() if count and same == count]
        where = (factor.name, factor.slot_bits, case.major, case.swizzle, case.instruction.id, len(case.descriptors))
        return saved.Body(case=saved.CaseCounts(*where, found.elements, found.agree, found.readings, ignored))


@dataclass(frozen=True)
class ProductExperiment(FormDialogue):
    """Products of random matrices through random descriptors, with A in registers and in shared memory."""

    count: int = PRODUCTS
    kind = KIND

    @property
    def id(self) -> str:
        return f"{self.row.id}{saved.PRODUCTS}"

    def kernels(self) -> list[Kernel]:
        """The kernels of all majors and both places of A."""
        places = [(coded, majors) for coded in CODED for majors in _majors(self.row, coded)]
        return [kernel(self.row, "raw", *place, _selector(self.row, *place)) for place in places]

    def measure(self, bench: Bench) -> Readout:
        """ "products" and "wrong": how many there are, one number each."""
        tables, seed = _tables(self.row, bench), len(self.row.id)
        runs = [run for coded in CODED for run in products(self.row, coded, tables, self.count, seed)]
        wrong = sum(run.wrong(tables["d"], bench.run([run.launch])[0].copy()) for run in runs)
        return {"products": np.array([self.count * len(runs)]), "wrong": np.array([wrong])}

    def conclude(self, reading: Readout, context: Context) -> saved.Body:
        """How many products are wrong."""
        return saved.Body(products=saved.ProductCounts(int(reading["products"][0]), int(reading["wrong"][0])))


def experiments() -> list[Dialogue]:
    """One experiment for each case; then products of every type, with some N."""
    rows = [row for row in inventory.instructions().values() if row.described and row.shape.n in PRODUCT_N]
    return [*map(DescriptorExperiment, cases()), *map(ProductExperiment, rows)]
