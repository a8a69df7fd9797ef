"""One tcgen05.mma: where it reads A, B and scales and keeps D, by its descriptors, and what it computes.

Written from PTX ISA 9.1, sections 9.7.16.2.1 (sizes), 9.7.16.10.4 to 9.7.16.10.7 (A, D and scales in tensor memory).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate import tensor_products
from tcprobe.emulate.machine import WARP
from tcprobe.emulate.matrix_words import InstructionWord, SharedWord, WrongWordError
from tcprobe.emulate.ptx import Statement
from tcprobe.emulate.tensor_layout import Cells, accumulator
from tcprobe.emulate.tensor_memory import MASK, PIECE, Issuer
from tcprobe.layout.arrays import Floats, Ints

K_BYTES = 32  # of a line that a multiply takes
HALF = 1 << 31


class Form(NamedTuple):
    """What a multiply's name says; `block` elements of k share a scale, 0 without scales."""

    statement: Statement
    kind: str
    pair: bool
    weight_stationary: bool
    block: int


class Operands(NamedTuple):
    """Addresses in tensor memory and descriptors; `adds` to D; `remote`: A is in tensor memory."""

    d: int
    a: int
    b: int
    instruction: int
    scales: list[int]
    adds: bool
    remote: bool


def issue(issuer: Issuer, form: Form, operands: Operands) -> None:
    """Check where it reads and writes, and let it take off; findings where it cannot be."""
    try:
        word = InstructionWord.read(form.kind, operands.instruction)
        b = SharedWord.read(operands.b)
        a = None if operands.remote else SharedWord.read(operands.a)
    except WrongWordError as error:
        issuer.machine.find("bounds", issuer.thread, str(error))
        return
    if not _exists(word, form):
        text = f"there is no multiply of M {word.m}, N {word.n} of kind {form.kind}"
        issuer.machine.find("bounds", issuer.thread, text)
        return
    Multiplication(issuer, form, operands, word).issue(a, b)


def _exists(word: InstructionWord, form: Form) -> bool:
    """Whether PTX has a multiply of that M and N."""
    if form.weight_stationary:
        return word.m in (32, 64, 128) and word.n in (64, 128, 256)
    step = 16 if form.pair or word.m == 128 else 8
    sizes = (128, 256) if form.pair else (128,) if form.block else (64, 128)
    return word.m in sizes and 0 < word.n <= 256 and word.n % step == 0


@lru_cache(maxsize=64)
def _accumulator(m: int, n: int, pair: bool, weight_stationary: bool) -> Cells:
    return accumulator(m, n, pair, weight_stationary)


class Multiplication:
    """A multiply that a thread issues."""

    def __init__(self, issuer: Issuer, form: Form, operands: Operands, word: InstructionWord) -> None:
        self.issuer, self.form, self.operands, self.word = issuer, form, operands, word
        self.machine, self.memory = issuer.machine, issuer.memory
        self.blocks = issuer.blocks
        self.packed = form.kind in ("mxf4", "mxf4nvf4")
        self.d = _accumulator(word.m, word.n, form.pair, form.weight_stationary)

    def issue(self, a: SharedWord | None, b: SharedWord) -> None:
        """Take off, unless it reads or writes what there is not."""
        issuer, word, parts = self.issuer, self.word, len(self.blocks)
        cells = self._cells(self.operands.d, self.d.lane, self.d.column, self.d.cta)
        if not self.memory.there(cells.reshape(-1), issuer.thread, "D").all():
            return
        issuer.check(cells.reshape(-1), "writes")
        of_a = [] if a is None else self._pieces(a, word.k_major_a, word.m // parts, word.a, "A")
        of_b = self._pieces(b, word.k_major_b, word.n // parts, word.b, "B")
        if of_a is None or of_b is None:
            return
        a_cells = self._factor() if self.operands.remote else None
        scales = [self._scales(which, at) for which, at in enumerate(self.operands.scales)]
        reads = [np.unique(held) for held in ([] if a_cells is None else [a_cells]) + scales]
        for held in reads:
            if not self.memory.there(held, issuer.thread, "A" if held is a_cells else "what it reads").all():
                return
            issuer.check(held, "reads")

        def act() -> None:
            left = self._gathered(of_a, word.k_major_a, word.a) if a_cells is None else self._remote(a_cells)
            right = self._gathered(of_b, word.k_major_b, word.b)
            before = (
                self._read(cells, "it adds to tensor memory")
                if self.operands.adds
                else np.zeros(cells.shape, np.uint32)
            )
            factors = [self._factors(held, which) for which, held in enumerate(scales)]
            self.memory.write(cells.reshape(-1), self._product(left, right, before, factors).reshape(-1))

        issuer.issue(act, np.concatenate([*of_a, *of_b]), reads, cells.reshape(-1))

    def _cells(self, address: int, lane: Ints, column: Ints, cta: Ints) -> Ints:
        """Offsets of cells that are counted from an address."""
        return self.memory.offsets(np.array(self.blocks)[cta], (address >> 16) + lane, (address & MASK) + column)

    def _read(self, cells: Ints, what: str) -> Any:
        words = self.memory.read(cells.reshape(-1), self.issuer.thread, what, self.form.statement)
        return words.reshape(cells.shape)

    def _pieces(self, word: SharedWord, k_major: bool, lines: int, kind: str, name: str) -> list[Ints] | None:
        """Of each block the pieces of a matrix in shared memory: by line and along k, or by k and along lines."""
        if k_major:
            line, piece = np.indices((lines, K_BYTES // PIECE))
            addresses = word.addresses(True, line, PIECE * piece)
        else:
            k, piece = np.indices((self.word.k, lines * tensor_products.WIDTHS.get(kind, 8) // 8 // PIECE))
            addresses = word.addresses(False, k, PIECE * piece)
        found = [self.issuer.shared(block, addresses, name) for block in self.blocks]
        return None if any(held is None for held in found) else [held for held in found if held is not None]

    def _gathered(self, pieces: list[Ints], k_major: bool, kind: str) -> Any:
        """(lines, k) patterns of bits, of all blocks one below the other."""
        made = []
        for held in pieces:
            raw = self.machine.shared.gather(held, PIECE)
            rows = raw.reshape(-1, K_BYTES) if k_major else raw.reshape(self.word.k, -1)
            patterns = tensor_products.unpacked(rows, kind, self.packed)
            made.append(patterns if k_major else patterns.T)
        return np.concatenate(made)

    def _factor(self) -> Ints:
        """(m, words) offsets of A in tensor memory: elements of a row behind each other, from a column on."""
        width = 4 if self.packed else max(8, tensor_products.WIDTHS.get(self.word.a, 8))
        row, column = np.indices((self.word.m, self.word.k * width // 32))
        cta, lane = np.divmod(row, self.word.m // len(self.blocks))
        if not self.form.pair and self.word.m == 64:
            lane = lane // 16 * 32 + lane % 16
        return self._cells(self.operands.a, lane, column, cta)

    def _remote(self, cells: Ints) -> Any:
        words = np.ascontiguousarray(self._read(cells, "A is in tensor memory"))
        return tensor_products.unpacked(words.view(np.uint8), self.word.a, self.packed)

    def _scales(self, which: int, address: int) -> Ints:
        """(4, lines, ctas) offsets of the words with scales: each warp's lanes hold all of them, 32 lines a column."""
        lines = self.word.n if which else self.word.m // len(self.blocks)
        warp, line, cta = np.indices((4, lines, len(self.blocks)))
        return self._cells(address, WARP * warp + line % WARP, line // WARP, cta)

    def _factors(self, cells: Ints, which: int) -> Floats:
        """Of A (m, blocks of k), by the warp of each row; of B (warps of all CTAs, n, blocks of k)."""
        first = self.word.id_b if which else self.word.id_a
        shifts = 8 * (first + np.arange(self.word.k // self.form.block, dtype=np.uint32))
        patterns = self._read(cells, "scales are in tensor memory")[..., None] >> shifts & np.uint32(255)
        values = tensor_products.numbers(self.word.scale, patterns)
        if which:
            return np.stack([values[warp, :, cta] for cta in range(cells.shape[2]) for warp in range(4)])
        row = np.arange(self.word.m) % cells.shape[1]
        found: Floats = values[self.d.lane[:, 0] // WARP, row, self.d.cta[:, 0]]
        return found

    def _product(self, a_bits: Any, b_bits: Any, c_bits: Any, scales: list[Floats]) -> Any:
        """D's words."""
        word, report = self.word, self.machine.report
        a, b = tensor_products.numbers(word.a, a_bits), tensor_products.numbers(word.b, b_bits).T
        a, b = -a if word.negate_a else a, -b if word.negate_b else b
        if word.kind == "i8":
            whole = a.astype(np.int64) @ b.astype(np.int64) + c_bits.view(np.int32)
            whole = np.clip(whole, -HALF, HALF - 1) if word.saturate else whole
            return (whole & 0xFFFFFFFF).astype(np.uint32)
        c = tensor_products.numbers(word.d, c_bits)
        made, exact = self._scaled(a, b, c, *scales) if scales else tensor_products.multiply(a, b, c)
        if word.d == "f16":
            report.note("D of f16 is rounded once for each multiply, to the nearest: no source says how")
            return made.astype(np.float16).view(np.uint16).astype(np.uint32)
        if not exact:
            report.note(
                "sums of tcgen05.mma that are not exact have bits that sources state of a B200; none were measured"
            )
            if not (scales or word.negate_a or word.negate_b):
                return tensor_products.multiply_documented((word.a, word.b, "f32"), a_bits, b_bits.T, c_bits)
        return made.astype(np.float32).view(np.uint32)

    def _scaled(self, a: Floats, b: Floats, c: Floats, of_a: Floats, of_b: Floats) -> tuple[Floats, bool]:
        """The product with the scales of each warp's own lanes, and whether every order of summing gives it."""
        a = np.repeat(of_a, self.form.block, axis=1) * a
        group = self.d.cta[:, 0] * 4 + self.d.lane[:, 0] // WARP
        made, exact = np.empty_like(c), True
        for number in np.unique(group):
            rows = group == number
            right = np.repeat(of_b[number], self.form.block, axis=1).T * b
            made[rows], same = tensor_products.multiply(a[rows], right, c[rows])
            exact &= same
        return made, exact
