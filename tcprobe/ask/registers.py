"""Who holds an element, what a lane holds, what feeds a result: questions to tables.

>>> from tcprobe.ask.registers import elements_held, where
>>> from tcprobe.store.cell import load
>>> a = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a")
>>> [str(holder) for holder in where(a, rows=[3], cols=[9])]
['lane 12 i 5 (register 2, bits 16..31)']
>>> [(h.row, h.col) for h in elements_held(a, lanes=[12], elements=[5])]
[(3, 9)]
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.ask.confidence import ConfidenceAnswer, least, line
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP, holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, Sparsity, sparsity
from tcprobe.isa.operand import MATRICES, MULTIPLIED
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.store.cell import Cell, require_selection, sources
from tcprobe.store.finding import Measurement
from tcprobe.text import Described, Whole
from tcprobe.values import Json


class HolderAnswer(Answer):
    """A slot and the element in it."""

    row: int
    col: int | None
    product: int | None
    lane: int
    i: int
    register: int
    bit: int
    bits: int


class ReadHolder(HolderAnswer):
    """A slot, and whether the multiply reads it."""

    read: bool


class MeetingAnswer(Answer):
    """Slots of A and B that meet in those of D; of a sparse form also of metadata, for one of several k."""

    a: list[ReadHolder]
    b: list[ReadHolder]
    d: list[ReadHolder]
    e: list[ReadHolder] | UnsetType = UNSET
    k: tuple[int, ...] | UnsetType = UNSET


class TraceAnswer(Answer):
    """What feeds a D element, or what a slot feeds, in registers."""

    instruction: str
    arch: str
    source: str
    evidence: dict[str, str]
    confidence: ConfidenceAnswer
    c: list[ReadHolder]
    d: list[ReadHolder]
    meetings: list[MeetingAnswer]
    selector: int | UnsetType = UNSET


class Holder(NamedTuple):
    """Slot (lane, i) and the element in it; `register` counts the fragment's registers, `bit` is its lowest there.

    `product` is None where a warp holds one product only, `col` where a lane holds the address of a row; `span` is how
    many columns from `col` on the slot speaks for.
    """

    row: int
    col: int | None
    product: int | None
    lane: int
    i: int
    register: int
    bit: int
    bits: int
    span: int = 1
    threads: int = WARP

    def __str__(self) -> str:
        last = self.bit + self.bits - 1
        return f"{self.holder} i {self.i} (register {self.register}, bits {self.bit}..{last})"

    @property
    def holder(self) -> str:
        """The lane, or the thread of a warpgroup."""
        return holder_name(self.lane, self.threads)

    @property
    def element(self) -> str:
        """[row][col], and the product where there are several."""
        col = "" if self.col is None else f"[{self.col}]"
        if self.col is not None and self.span > 1:
            col = f"[{self.col}-{self.col + self.span - 1}]"
        return f"[{self.row}]{col}" + ("" if self.product is None else f" of product {self.product}")

    @property
    def answer(self) -> HolderAnswer:
        """What `--json` prints of it."""
        return HolderAnswer.of(self)

    def to_json(self) -> Json:
        return plain(self.answer)


def where(cell: Cell, rows: Iterable[int], cols: Iterable[int], products: Iterable[int] = ()) -> list[Holder]:
    """Every holder of the elements rows x cols (of all products unless given), element by element, by slot.

    Where a slot speaks for several columns, each of them leads to it. UsageError where a row, col or product is outside
    the fragment.
    """
    require_selection(cell)
    fragment = cell.fragment
    rows, cols = _inside("row", rows, fragment.rows), _inside("col", cols, fragment.cols)
    cols = list(dict.fromkeys(col - col % fragment.span for col in cols))
    parts = _inside("product", products, fragment.products) or range(fragment.products)
    elements = ({"row": r, "col": c, "product": p} for p in parts for r in rows for c in cols)
    keys = [tuple(element[name] for name in cell.table.outputs) for element in elements]
    return [_holder(cell, slot) for key in keys for slot in cell.table.inverse.get(key, [])]


def elements_held(cell: Cell, lanes: Iterable[int], elements: Iterable[int] = ()) -> list[Holder]:
    """What lanes hold in the given elements, in all without any; unused slots are left out.

    UsageError where a lane or i is outside the fragment.
    """
    require_selection(cell)
    table = cell.table
    numbers = _inside("i", elements, table.elements) or list(range(table.elements))
    slots = [lane * table.elements + i for lane in _inside("lane", lanes, table.threads) for i in numbers]
    return [_holder(cell, slot) for slot in slots if table.cells[slot] is not None]


class Meeting(NamedTuple):
    """Slots of A and B that meet in D: all holders of A[row][k], B[k][col] and D[row][col].

    Of a sparse multiply A[row][stored column], and in `b` the holders of all B[k][col] that it can meet, k by k; `e`
    has the index field that says which, and `k` these k by index.
    """

    a: list[Holder]
    b: list[Holder]
    d: list[Holder]
    e: Sequence[Holder] = ()
    k: tuple[int, ...] = ()

    @property
    def element_of_b(self) -> str:
        """B[row][col], or of a sparse multiply those that may be met."""
        return f"B[{'|'.join(map(str, self.k))}][{self.b[0].col}]" if self.k else f"B{self.b[0].element}"


@dataclass(frozen=True, repr=False)
class Trace(Described):
    """What feeds a D element, or what a slot feeds: meetings in the order of k, row or col, and C -> D.

    `unread` has the slots (operand, lane, i) that the multiply never takes, as far as that was measured.
    """

    instruction: Instruction
    operands: Mapping[str, Cell]
    about: str
    c: list[Holder]
    d: list[Holder]
    meetings: list[Meeting]
    unread: frozenset[tuple[str, int, int]]

    @property
    def arch(self) -> str:
        """Where the tables are from."""
        return self.operands["d"].arch

    @property
    def in_words(self) -> Iterator[str]:
        """The slots on both sides, a line for each product of A and B, and what it rests on."""
        yield f"{self.about} in {self.instruction.id} on {self.arch}"
        if self.d:
            yield Whole(f"  held by {self._slots('d', self.d)}; adds C: {self._slots('c', self.c)}")
        yield from self._products()
        if "e" in self.operands:
            yield f"selector {self.operands['e'].selector}; B for each index; the field of E picks one"
        yield from dict.fromkeys(cell.evidence for cell in self.operands.values())
        yield line(least(self.operands.values()))

    def _products(self) -> Iterator[str]:
        """A line for each meeting: the elements of A, B and D, each with its slots."""
        rows = [
            (
                f"A{m.a[0].element}",
                self._slots("a", m.a) + (f" by E {self._slots('e', m.e)}" if m.e else ""),
                m.element_of_b,
                self._slots("b", m.b),
                f"D{m.d[0].element}",
                self._slots("d", m.d),
            )
            for m in self.meetings
        ]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for a, a_slots, b, b_slots, d, d_slots in rows:
            left = f"{a:<{wide[0]}} {a_slots:<{wide[1]}}  x  {b:<{wide[2]}} {b_slots:<{wide[3]}}"
            yield Whole(f"  {left}  ->  {d:<{wide[4]}} {d_slots}".rstrip())

    def _slots(self, operand: str, holders: Sequence[Holder]) -> str:
        """lane:i of every holder; one that the multiply never reads in parentheses."""
        texts = ((f"{h.lane}:{h.i}", (operand, h.lane, h.i) in self.unread) for h in holders)
        return " ".join(f"({text})" if unread else text for text, unread in texts)

    def to_json(self) -> Json:
        """Plain data; a holder that is never read has "read": false."""
        meetings = [
            MeetingAnswer(
                **{operand: self._said(operand, getattr(meeting, operand)) for operand in MULTIPLIED},
                e=self._said("e", meeting.e) if meeting.e else UNSET,
                k=meeting.k if meeting.e else UNSET,
            )
            for meeting in self.meetings
        ]
        answer = TraceAnswer.of(
            self,
            instruction=self.instruction.id,
            source=sources(self.operands.values()),
            evidence={operand: cell.evidence for operand, cell in self.operands.items()},
            confidence=least(self.operands.values()).answer,
            c=self._said("c", self.c),
            d=self._said("d", self.d),
            meetings=meetings,
            selector=self.operands["e"].selector if "e" in self.operands else UNSET,
        )
        return plain(answer)

    def _said(self, operand: str, holders: Sequence[Holder]) -> list[ReadHolder]:
        return [ReadHolder.of(h, read=(operand, h.lane, h.i) not in self.unread) for h in holders]


def trace(instruction: Instruction, operands: Mapping[str, Cell], row: int, col: int, product: int | None) -> Trace:
    """All slots that feed D[row][col], in k order; `operands` are the tables of a, b, c and d on one arch.

    `product` is needed where a warp holds several. UsageError where it is missing, or anything is outside D.
    """
    if instruction.products > 1 and product is None:
        raise UsageError(f"{instruction.id} holds {instruction.products} products: choose one with `product`.")
    find = _Finder(operands, product)  # which refuses a product that there is not
    c, d = find("c", row, col), find("d", row, col)
    meetings = [find.meeting((row, col), column) for column in range(instruction.stored)]
    return Trace(instruction, operands, f"D{d[0].element}", c, d, meetings, unread(instruction, operands))


def feeds(instruction: Instruction, operands: Mapping[str, Cell], operand: str, lane: int, i: int) -> Trace:
    """What slot (lane, i) of operand a, b, c or e feeds. UsageError where there is no such slot."""
    if operand not in operands:
        raise UsageError(f"{instruction.id} has no operand {operand.upper()}.")
    slots = elements_held(operands[operand], [lane], [i])
    if not slots:
        raise UsageError(f"{holder_name(lane, operands[operand].table.threads)} i {i} of {operand.upper()} is unused.")
    (slot,) = slots
    assert slot.col is not None  # a multiply has no addresses
    find, shape = _Finder(operands, slot.product), instruction.shape
    about = f"{operand.upper()} {slot.holder} i {i}, which holds {operand.upper()}{slot.element}"
    meetings, c, d = [], [], []
    if operand in "ae":
        span = operands["e"].fragment.span if operand == "e" else 1
        meetings = [find.meeting((slot.row, n), slot.col + j) for j in range(span) for n in range(shape.n)]
    elif operand == "b":
        meetings = [find.meeting((m, slot.col), s) for m in range(shape.m) for s in find.stored_columns(slot.row)]
    else:
        c, d = [slot], find("d", slot.row, slot.col)
    if operand == "a":
        meetings = [meeting._replace(a=[slot]) for meeting in meetings]
    elif operand == "b" and not instruction.metadata:
        meetings = [meeting._replace(b=[slot]) for meeting in meetings]
    return Trace(instruction, operands, about, c, d, meetings, unread(instruction, operands))


class _Finder:
    """All holders of one element of an operand, of one product."""

    def __init__(self, operands: Mapping[str, Cell], product: int | None) -> None:
        self._operands, self._products = operands, [] if product is None else [product]

    def __call__(self, operand: str, row: int, col: int) -> list[Holder]:
        if operand not in self._operands:
            raise UsageError(f"`operands` has no table of {operand.upper()}.")
        return where(self._operands[operand], [row], [col], self._products)

    def meeting(self, element: tuple[int, int], stored: int) -> Meeting:
        """What A[row][stored] meets for the element D[row][col]."""
        row, col = element
        a, d = self("a", row, stored), self("d", row, col)
        if "e" not in self._operands:
            return Meeting(a, self("b", stored, col), d)
        span = self._operands["e"].fragment.span
        k = tuple(self._rule.k(stored, index) for index in range(self._rule.positions))
        return Meeting(
            a, [h for row_of_b in k for h in self("b", row_of_b, col)], d, self("e", row, stored - stored % span), k
        )

    def stored_columns(self, k: int) -> list[int]:
        """The stored columns of A that can be column k."""
        if "e" not in self._operands:
            return [k]
        rule, columns = self._rule, range(self._operands["a"].fragment.cols)
        return [s for s in columns if k in (rule.k(s, index) for index in range(rule.positions))]

    @property
    def _rule(self) -> Sparsity:
        return sparsity(self._operands["e"].fragment)


def unread(instruction: Instruction, operands: Mapping[str, Cell]) -> frozenset[tuple[str, int, int]]:
    """The slots (operand, lane, i) that the multiply never takes, as far as that was measured on the arch."""
    saved = measured_multiply(instruction, operands)
    lanes_of = saved.unread if saved else {}
    return frozenset((o, lane, i) for o, lanes in lanes_of.items() for lane, unused in enumerate(lanes) for i in unused)


def measured_multiply(instruction: Instruction, operands: Mapping[str, Cell]) -> Measurement | None:
    """The multiply's measurement beside that of D, None if there is none with these very tables."""
    cell = operands["d"]
    saved = cell.layers.multiply(instruction.id, cell.measured) if cell.measured else None
    return saved if saved and all(saved.tables[o] == operands[o].table for o in MATRICES) else None


def _holder(cell: Cell, slot: int) -> Holder:
    fragment: Fragment = cell.fragment
    lane, i = divmod(slot, cell.table.elements)
    element = cell.table.cells[slot]
    assert element is not None
    register, bit = fragment.where(i)
    coordinates = dict(zip(cell.table.outputs, element, strict=True))
    return Holder(
        coordinates["row"],
        coordinates.get("col"),
        coordinates.get("product"),
        lane,
        i,
        register,
        bit,
        fragment.slot_bits,
        fragment.span,
        cell.table.threads,
    )


def _inside(name: str, indices: Iterable[int], size: int) -> list[int]:
    numbers = list(indices)
    for value in numbers:
        if not 0 <= value < size:
            raise UsageError(f"{name} {value} is outside 0 to {size - 1}.")
    return numbers
