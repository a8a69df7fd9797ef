"""One tcgen05.mma: where it reads A, B, metadata and scales and keeps D, by its descriptors, and what it computes.

Written from PTX ISA 9.1, sections 9.7.16.2.1 (sizes), 9.7.16.10.4 to 9.7.16.10.8 (A, D, scales and metadata in tensor
memory), 9.7.16.10.9 (the operands).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate import tensor_products
from tcprobe.emulate.machine import WARP
from tcprobe.emulate.matrix_words import InstructionWord, SharedWord, WrongWordError, zero_columns
from tcprobe.emulate.ptx import Statement
from tcprobe.emulate.sparse import lines_of
from tcprobe.emulate.tensor_layout import LANES, Cells, accumulator, banks, metadata
from tcprobe.emulate.tensor_memory import MASK, PIECE, Issuer
from tcprobe.isa.instruction import SINGLE_FIELD, Sparsity
from tcprobe.layout.arrays import Bools, Floats, Ints

K_BYTES = 32  # of a row of A that a multiply takes
HALF = 1 << 31
# of metadata: index fields of a chunk of A, units that it has, elements of a unit, bits of a field
SPARSITY = {"tf32": Sparsity(1, 2, 1, 4), "mxf4": Sparsity(2, 4, 2, 2), "mxf4nvf4": Sparsity(2, 4, 2, 2)}
PAIRS = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)  # of fields that PTX gives a meaning
NARROW = ("e2m1", "e2m3", "e3m2")


class Form(NamedTuple):
    """What a multiply's name says; `block` elements of k share a scale, 0 without scales."""

    statement: Statement
    kind: str
    pair: bool
    weight_stationary: bool
    sparse: bool
    block: int


class Operands(NamedTuple):
    """Addresses in tensor memory and descriptors; `adds` to D, times 2 ^ -`lowered`; `remote`: A is in tensor memory.

    `unwritten` is a bit for each lane of D, of both CTAs of a pair; `zeros` the word that names columns of B.
    """

    d: int
    a: int
    b: int
    instruction: int
    metadata: int
    scales: list[int]
    adds: bool
    lowered: int
    remote: bool
    unwritten: int
    zeros: int


def issue(issuer: Issuer, form: Form, operands: Operands) -> None:
    """Check where it reads and writes, and let it take off; findings where it cannot be."""
    try:
        word = InstructionWord.read(form.kind, operands.instruction)
        if word.sparse != form.sparse:
            raise WrongWordError(
                f"the instruction descriptor says {'sparse' if word.sparse else 'dense'}; not the name"
            )
        if not _exists(word, form):
            raise WrongWordError(f"there is no multiply of M {word.m}, N {word.n} of kind {form.kind}")
        b = SharedWord.read(operands.b)
        a = None if operands.remote else SharedWord.read(operands.a)
        zeros = zero_columns(operands.zeros, word.m, word.n) if operands.zeros else None
    except WrongWordError as error:
        issuer.machine.find("bounds", issuer.thread, str(error))
        return
    _stated(word, form, b, operands.remote)
    Multiplication(issuer, form, operands, word, zeros).issue(a, b)


def _exists(word: InstructionWord, form: Form) -> bool:
    """Whether PTX has a multiply of that M and N."""
    if form.weight_stationary:
        return word.m in (32, 64, 128) and word.n in ((64, 128) if form.sparse else (64, 128, 256))
    step = 16 if form.pair or word.m == 128 else 8
    sizes = (128, 256) if form.pair else (128,) if form.block else (64, 128)
    sizes = sizes[-1:] if form.sparse and form.block else sizes
    return word.m in sizes and 0 < word.n <= 256 and word.n % step == 0


def _stated(word: InstructionWord, form: Form, b: SharedWord, remote: bool) -> None:
    """Refuse what no source states, or two state differently."""
    refused = form.statement.refused
    if form.sparse and form.pair and word.m == 128:
        raise refused("of two CTAs with M = 128: PTX has D in layout C, CUTLASS in layout B")
    if form.sparse and word.k_major_b and 0 < b.swizzle < 2 * K_BYTES:
        raise refused("with B in rows of 32 bytes, less than its k: no source states where the rest is")
    if remote and form.weight_stationary and word.m < (128 if form.sparse else 64):
        raise refused(f"with A of M = {word.m} in tensor memory: no source states its layout")
    if remote and word.a in NARROW and form.kind not in ("mxf4", "mxf4nvf4"):
        raise refused(f"with A of {word.a} in tensor memory: only a figure shows where in its byte an element is")


@lru_cache(maxsize=64)
def _accumulator(m: int, n: int, pair: bool, weight_stationary: bool) -> Cells:
    return accumulator(m, n, pair, weight_stationary)


class Multiplication:
    """A multiply that a thread issues."""

    def __init__(
        self, issuer: Issuer, form: Form, operands: Operands, word: InstructionWord, zeros: Bools | None
    ) -> None:
        self.issuer, self.form, self.operands, self.word, self.zeros = issuer, form, operands, word, zeros
        self.machine, self.memory = issuer.machine, issuer.memory
        self.blocks = issuer.blocks
        self.packed = form.kind in ("mxf4", "mxf4nvf4")
        self.d = _accumulator(word.m, word.n, form.pair, form.weight_stationary)
        self.banks = banks(word.m, form.pair, form.weight_stationary)
        self.vector = (64 if self.packed else 32) // form.block if form.block else 0  # scales of a row

    def issue(self, a: SharedWord | None, b: SharedWord) -> None:
        """Take off, unless it reads or writes what there is not."""
        issuer, word, parts = self.issuer, self.word, len(self.blocks)
        written = self._written()
        d = self._cells(self.operands.d, self.d.lane, self.d.column, self.d.cta)[written]
        if not self.memory.there(d, issuer.thread, "D").all():
            return
        issuer.check(d, "writes")
        of_a = [] if a is None else self._pieces(a, word.k_major_a, word.m // parts, word.stored, word.a, "A")
        of_b = self._pieces(b, word.k_major_b, word.n // parts, word.k, word.b, "B")
        if of_a is None or of_b is None:
            return
        a_cells = self._factor() if self.operands.remote else None
        metadata_cells, first_bits = self._metadata() if self.form.sparse else (None, None)
        scales = [self._scales(which, at) for which, at in enumerate(self.operands.scales)]
        named = [("A", a_cells), ("metadata", metadata_cells), *(("what it reads", held) for held in scales)]
        reads = [(name, np.unique(held)) for name, held in named if held is not None]
        for name, held in reads:
            if not self.memory.there(held, issuer.thread, name).all():
                return
            issuer.check(held, "reads")

        def act() -> None:
            left = (
                self._remote(a_cells)
                if a_cells is not None
                else self._gathered(of_a, word.k_major_a, word.stored, word.a)[None]
            )
            right = self._gathered(of_b, word.k_major_b, word.k, word.b)
            before = np.zeros(written.shape, np.uint32)
            if self.operands.adds:
                before[written] = self._read(d, "it adds to tensor memory")
            factors = [self._factors(held, which) for which, held in enumerate(scales)]
            met = None if metadata_cells is None else self._met(metadata_cells, first_bits)
            self.memory.write(d, self._product(left, right, before, factors, met)[written])

        issuer.issue(act, np.concatenate([*of_a, *of_b]), [held for _, held in reads], d)

    def _written(self) -> Bools:
        """(m, n) which elements of D are written."""
        if not self.operands.unwritten:
            return np.ones(self.d.lane.shape, np.bool_)
        lane = (self.operands.d >> 16) + self.d.lane + LANES * self.d.cta
        bits = np.array([self.operands.unwritten >> each & 1 for each in range(2 * LANES)])
        return np.asarray(bits[lane % bits.size] == 0)

    def _cells(self, address: int, lane: Ints, column: Ints, cta: Ints) -> Ints:
        """Offsets of cells that are counted from an address."""
        return self.memory.offsets(np.array(self.blocks)[cta], (address >> 16) + lane, (address & MASK) + column)

    def _read(self, cells: Ints, what: str) -> Any:
        words = self.memory.read(cells.reshape(-1), self.issuer.thread, what, self.form.statement)
        return words.reshape(cells.shape)

    def _pieces(self, word: SharedWord, k_major: bool, lines: int, k: int, kind: str, name: str) -> list[Ints] | None:
        """Of each block the pieces of a matrix in shared memory: by line and along k, or by k and along lines."""
        if k_major:
            line, piece = np.indices((lines, K_BYTES * k // self.word.stored // PIECE))
            addresses = word.addresses(True, line, PIECE * piece)
        else:
            along, piece = np.indices((k, lines * tensor_products.WIDTHS.get(kind, 8) // 8 // PIECE))
            addresses = word.addresses(False, along, PIECE * piece)
        found = [self.issuer.shared(block, addresses, name) for block in self.blocks]
        return None if any(held is None for held in found) else [held for held in found if held is not None]

    def _gathered(self, pieces: list[Ints], k_major: bool, k: int, kind: str) -> Any:
        """(lines, k) patterns of bits, of all blocks one below the other."""
        made = []
        for held in pieces:
            raw = self.machine.shared.gather(held, PIECE)
            rows = raw.reshape(-1, K_BYTES * k // self.word.stored) if k_major else raw.reshape(k, -1)
            patterns = tensor_products.unpacked(rows, kind, self.packed)
            made.append(patterns if k_major else patterns.T)
        return np.concatenate(made)

    def _by_bank(self, address: int, lane: Ints, column: Ints, cta: Ints) -> Ints:
        """(banks, ...) offsets of cells of which each bank of lanes has its own."""
        apart = LANES // self.banks
        return np.stack([self._cells(address, lane + apart * bank, column, cta) for bank in range(self.banks)])

    def _factor(self) -> Ints:
        """(banks, m, words) offsets of A in tensor memory: elements of a row behind each other, from a column on."""
        width = 4 if self.packed else tensor_products.WIDTHS.get(self.word.a, 8)
        row, column = np.indices((self.word.m, self.word.stored * width // 32))
        cta, lane = np.divmod(row, self.word.m // len(self.blocks))
        if self.banks == 1 and self.word.m == 64:
            lane = lane // 16 * 32 + lane % 16
        return self._by_bank(self.operands.a, lane, column, cta)

    def _remote(self, cells: Ints) -> Any:
        words = np.ascontiguousarray(self._read(cells, "A is in tensor memory"))
        flat = tensor_products.unpacked(words.view(np.uint8).reshape(-1, K_BYTES), self.word.a, self.packed)
        return flat.reshape(*cells.shape[:2], -1)

    def _metadata(self) -> tuple[Ints, Ints]:
        """(banks, m, fields) offsets of cells with metadata, and (m, fields) the lowest bit of each field."""
        word = self.word
        at = metadata(word.kind, word.m, self.form.pair, self.form.weight_stationary, word.selector)
        return self._by_bank(self.operands.metadata, at.lane, at.column, at.cta), at.bit

    def _met(self, cells: Ints, first_bits: Any) -> Ints:
        """(banks, m, stored) the line of B that each element of A meets."""
        rule = SPARSITY.get(self.word.kind, Sparsity(2, 4, 1, 2))
        words = self._read(cells, "metadata is in tensor memory").astype(np.int64)
        fields = words >> first_bits & (1 << rule.bits) - 1
        told = fields if rule.fields == 1 else fields[..., 0::2] | fields[..., 1::2] << rule.bits
        if not np.isin(told, SINGLE_FIELD if rule.fields == 1 else PAIRS).all():
            self.machine.report.note(
                "metadata of tcgen05.mma.sp has indices that PTX gives no meaning; they are taken as they are"
            )
        return lines_of(fields, rule, self.word.stored)

    def _scales(self, which: int, address: int) -> Ints:
        """(4, lines, ctas) offsets of the words with scales: each warp's lanes hold all of them, 32 lines a column."""
        lines = self.word.n if which else self.word.m // len(self.blocks)
        warp, line, cta = np.indices((4, lines, len(self.blocks)))
        return self._cells(address, WARP * warp + line % WARP, line // WARP, cta)

    def _factors(self, cells: Ints, which: int) -> Floats:
        """Of A (m, scales of a row), by the warp of each row; of B (warps of all CTAs, n, scales of a column)."""
        first = self.word.id_b if which else self.word.id_a
        shifts = 8 * (first + np.arange(self.vector, dtype=np.uint32))
        patterns = self._read(cells, "scales are in tensor memory")[..., None] >> shifts & np.uint32(255)
        values = tensor_products.numbers(self.word.scale, patterns)
        if which:
            return np.stack([values[warp, :, cta] for cta in range(cells.shape[2]) for warp in range(4)])
        row = np.arange(self.word.m) % cells.shape[1]
        found: Floats = values[self.d.lane[:, 0] // WARP, row, self.d.cta[:, 0]]
        return found

    def _product(self, a_bits: Any, b_bits: Any, c_bits: Any, scales: list[Floats], met: Ints | None) -> Any:
        """D's words: A (banks or 1, m, stored), B (n, k), D (m, n), the lines that each bank's A meets."""
        if self.zeros is not None:
            b_bits = np.where(self.zeros[:, None], 0, b_bits).astype(b_bits.dtype)
        made, wide = np.empty_like(c_bits), self.word.n // self.banks
        for bank in range(self.banks):
            part = slice(bank * wide, (bank + 1) * wide)
            a = a_bits[bank if len(a_bits) > 1 else 0]
            of_bank = None if met is None else met[bank]
            made[:, part] = self._sums(a, b_bits[part], c_bits[:, part], scales, of_bank)
        return made

    def _sums(self, a_bits: Any, b_bits: Any, c_bits: Any, scales: list[Floats], met: Ints | None) -> Any:
        """D's words of one bank of lanes."""
        word, report = self.word, self.machine.report
        a, b = tensor_products.numbers(word.a, a_bits), tensor_products.numbers(word.b, b_bits).T
        a, b = -a if word.negate_a else a, -b if word.negate_b else b
        if word.kind == "i8":
            whole = tensor_products.matmul(a, b, met).astype(np.int64) + c_bits.view(np.int32)
            whole = np.clip(whole, -HALF, HALF - 1) if word.saturate else whole
            return (whole & 0xFFFFFFFF).astype(np.uint32)
        c = np.ldexp(tensor_products.numbers(word.d, c_bits), -self.operands.lowered)
        made, exact = self._scaled(a, b, c, scales, met) if scales else tensor_products.multiply(a, b, c, met)
        if word.d == "f16":
            report.note("D of f16 is rounded once for each multiply, to the nearest: no source says how")
            return made.astype(np.float16).view(np.uint16).astype(np.uint32)
        if exact:
            return made.astype(np.float32).view(np.uint32)
        if scales or met is not None or self.operands.lowered or word.negate_a or word.negate_b:
            report.note(
                "sums of tcgen05.mma with scales, sparse A, negated factors or a scaled D that are not exact are "
                "rounded once; none were measured"
            )
            return made.astype(np.float32).view(np.uint32)
        report.note("sums of tcgen05.mma that are not exact have bits that sources state of a B200; none were measured")
        return tensor_products.multiply_documented((word.a, word.b, "f32"), a_bits, b_bits.T, c_bits)

    def _scaled(self, a: Floats, b: Floats, c: Floats, scales: list[Floats], met: Ints | None) -> tuple[Floats, bool]:
        """The product with the scales of each warp's own lanes, and whether every order of summing gives it."""
        of_a, of_b = scales
        a = np.repeat(of_a, a.shape[1] // self.vector, axis=1) * a
        group = self.d.cta[:, 0] * 4 + self.d.lane[:, 0] // WARP
        made, exact = np.empty_like(c), True
        for number in np.unique(group):
            rows = group == number
            right = np.repeat(of_b[number], b.shape[0] // self.vector, axis=1).T * b
            lines = None if met is None else met[rows]
            made[rows], same = tensor_products.multiply(a[rows], right, c[rows], lines)
            exact &= same
        return made, exact
