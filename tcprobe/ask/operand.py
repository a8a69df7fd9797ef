"""An operand wherever it is: in registers, in shared memory behind a descriptor, or in tensor memory.

`in_place` gives what a name means as one of three classes: `InRegisters`, `InSharedMemory` (`ask.shared_operand`) and
`InTensorMemory` (`ask.tensor_memory`). Each shows its map (`shown`) and says where elements are (`where`), with answers
that have words and JSON. `OperandOptions` are the options that say which operand is meant, `Sought` what is asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Protocol

from tcprobe.ask.confidence import ConfidenceAnswer, confidence, least, line
from tcprobe.ask.registers import Holder, HolderAnswer, elements_held, where
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP, WARPGROUP, Arch
from tcprobe.isa.names import resolve
from tcprobe.layout.swizzle import SwizzleName
from tcprobe.notation import is_written
from tcprobe.question import words
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.question.declare import Option
from tcprobe.question.options import NonEmptyText, Number, Numbers, SwizzleType
from tcprobe.question.shared import find_cell
from tcprobe.store.cell import Cell, selections
from tcprobe.store.choose import Layers
from tcprobe.text import Whole
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.absent import WhyNot
    from tcprobe.ask.shared_operand import InSharedMemory
    from tcprobe.ask.tensor_memory import InTensorMemory

Range = Sequence[int] | None  # at the command line a number or a range: 3, 0-7
MajorName = Literal["k", "mn"]
SelectorOption = Annotated[
    int | None,
    Option(
        "--selector",
        "Sparsity selector of metadata; for scales the choice of byte-id and thread-id, numbered as in "
        "`list --json`. Default: all, or the only one.",
        "N",
    ),
]
# of a descriptor
DescriptorSwizzleOption = Annotated[
    SwizzleName | None,
    Option(
        "--swizzle",
        "Swizzle of an operand in shared memory: none, 32, 64, 128 (SWIZZLE_128B, sw:3,4,3).",
        reads=SwizzleType(),
    ),
]
MajorOption = Annotated[MajorName | None, Option("--major", "What is contiguous: k, or m and n.", word=words.MAJOR)]
LboOption = Annotated[
    int | None, Option("--lbo", "Leading byte offset. Default: that of a tile without gaps.", "BYTES")
]
SboOption = Annotated[int | None, Option("--sbo", "Stride byte offset. Default: that of a tile without gaps.", "BYTES")]
BaseOffsetOption = Annotated[int | None, Option("--base-offset", "Base offset, 0 to 7.", "N")]
StartOption = Annotated[int | None, Option("--start", "Start address, modulo 1,024.", "BYTES")]
# of tensor memory
MOption = Annotated[
    int | None, Option("--m", "With tcgen05.mma: M. Default: 128, or the largest.", reads=Number(), word=words.SHAPE)
]
NOption = Annotated[int | None, Option("--n", "With tcgen05.mma: N. Default: 256, or the largest.", reads=Number())]
VectorOption = Annotated[
    int | None, Option("--scale-vec", "Scales of a row in tensor memory: 1 for 1X, 2, 4.", "N", Number())
]
MulticastOption = Annotated[
    str | None,
    Option("--multicast", "With tcgen05.cp: warpx2::02_13, warpx2::01_23. Default: the first.", reads=NonEmptyText()),
]
LoadOption = Annotated[
    str | None, Option("--ld", "The tcgen05.ld that reads D, such as 32x32b.x32.", "SHAPE.xN", NonEmptyText())
]
RANGE = Numbers()
THREAD = ("thread", "tid")  # what a lane is called too


class OperandOptions(NamedTuple):
    """What is said of an operand beside its name: archs and folders, selector, its descriptor, its sizes."""

    layers: Layers
    arch: str | None = None
    selector: int | None = None
    swizzle: SwizzleName | None = None
    major: str | None = None
    lbo: int | None = None
    sbo: int | None = None
    base_offset: int | None = None
    start: int | None = None
    m: int | None = None
    n: int | None = None
    vector: int | None = None
    multicast: str | None = None


class Sought(NamedTuple):
    """Elements (rows, cols), slots (lanes, elements), bytes, or cells of tensor memory; None where nothing is said."""

    rows: Range = None
    cols: Range = None
    products: Range = None
    lanes: Range = None
    elements: Range = None
    byte: Range = None
    cta: int | None = None
    columns: Range = None
    bit: int | None = None
    ld: str | None = None
    warp: int | None = None


OF_DESCRIPTORS = ("swizzle", "major", "lbo", "sbo", "base_offset", "start")
OF_TENSOR_MEMORY = ("m", "n", "vector", "multicast", "cta", "columns", "bit", "ld", "a_major", "b_major")


def given(names: Sequence[str], *options: NamedTuple) -> list[str]:
    """Those parameters that have a value, in backticks."""
    values: Mapping[str, object] = {name: value for each in options for name, value in each._asdict().items()}
    return [f"`{name}`" for name in names if values.get(name) is not None]


def require_no_tensor_memory(*options: NamedTuple) -> None:
    """UsageError for an option that goes with tensor memory alone."""
    if wrong := given(OF_TENSOR_MEMORY, *options):
        raise UsageError(f"{wrong[0]} needs an operand in tensor memory, such as tcgen05.mma.cta_group::1.kind::f16.d.")


class ReachedCell(Answer):
    """Of a load or store of tensor memory: the cell, from the address on; with --warp its lanes are counted."""

    lane: int
    column: int


class LocatedHolder(HolderAnswer):
    """A slot and the element in it."""

    thread: (
        Annotated[int, Meta(description="Of a CTA's tile or a layout's text: the thread of the CTA")] | UnsetType
    ) = UNSET
    warp: int | UnsetType = UNSET
    tmem: ReachedCell | UnsetType = UNSET


class LocatedAnswer(Answer, kw_only=True):
    """Who holds elements in registers, or what lanes hold there."""

    id: str
    arch: str
    source: str
    evidence: str
    confidence: ConfidenceAnswer
    status: Literal["measured", "documented", "written"]
    selector: int | UnsetType = UNSET
    tmem: ReachedCell | UnsetType = UNSET
    holders: list[LocatedHolder]


class OperandAnswer(Protocol):
    """What is said of an operand; `about` is the word in it that stands out."""

    @property
    def about(self) -> str:
        """Whom the answer is about, as it stands in its words."""

    @property
    def in_words(self) -> Iterator[str]:
        """Lines for people."""

    def to_json(self) -> Json:
        """Plain data."""


def in_place(name: str, forms: bool = False) -> "InRegisters | InSharedMemory | InTensorMemory":
    """The operand that a name means, in its place; with `forms` also an instruction with tensor memory alone."""
    if is_written(name):
        return InRegisters(name)
    if "tcgen05" in name.lower():
        from tcprobe.ask.tensor_memory import InTensorMemory, operand, tensor_form

        if placed := operand(name):
            return InTensorMemory(placed.form, placed)
        if forms and (form := tensor_form(name)):
            return InTensorMemory(form)
    meaning = resolve(name)
    if meaning.says_shared:
        from tcprobe.ask.shared_operand import InSharedMemory

        return InSharedMemory(meaning)
    return InRegisters(name)


class InRegisters(NamedTuple):
    """An operand in registers, by the name that means it."""

    name: str

    def where(self, options: OperandOptions, sought: Sought) -> "Iterator[Located]":
        """Holders of elements, or what slots hold, a table for each selector."""
        require_no_tensor_memory(options, sought)
        if beyond := given(("byte", *OF_DESCRIPTORS), options, sought):
            raise UsageError(f"{beyond[0]} needs an operand in shared memory: a_smem, b_smem.")
        whole = find_cell(self.name, options.arch, options.layers, memory=True)
        for cell in selections(whole, options.selector):
            yield Located.find(cell, sought)

    def why_not(self, device: Arch, layers: Layers) -> "list[WhyNot]":
        """Why an arch does not have what the name means, instructions without registers among it."""
        from tcprobe.ask import absent
        from tcprobe.store import names

        meaning = names.resolve(self.name, layers)
        fragments = meaning.fragments if meaning.bare else meaning.some_fragments
        return [
            *(absent.why_not(one, device, layers) for one in fragments),
            *(absent.why_not_form(form, device, layers) for form in meaning.bare),
        ]


class Located(NamedTuple):
    """Slots with the elements that were sought; `by_lane` where slots were asked for.

    `cells` has the cell of tensor memory that a slot of a tcgen05.ld or .st reaches, relative or that of a `warp`.
    """

    cell: Cell
    by_lane: bool
    holders: Sequence[Holder]
    cells: Sequence[ReachedCell | UnsetType]
    warp: int | None

    @classmethod
    def find(cls, cell: Cell, sought: Sought) -> "Located":
        """Elements (rows, cols) or slots (lanes, elements) of a table; UsageError unless it is just one of the two."""
        rows, cols, lanes, elements = sought.rows, sought.cols, sought.lanes, sought.elements
        by_lane = lanes is not None or elements is not None
        if by_lane == (rows is not None or cols is not None):
            raise UsageError("give `rows` and `cols`, or `lanes` and `elements`.")
        if by_lane and sought.products:
            raise UsageError("`products` needs `rows` and `cols`; a slot belongs to one product only.")
        if by_lane:
            asked = range(cell.table.threads) if lanes is None else lanes
            if sought.warp is not None and cell.in_cta(0):
                asked = [sought.warp * WARP + lane for lane in asked if lane < WARP]
            holders = elements_held(cell, asked, elements or ())
        else:
            at_rows = range(cell.fragment.rows) if rows is None else rows
            at_cols = range(cell.fragment.cols) if cols is None else cols
            holders = where(cell, at_rows, at_cols, sought.products or ())
        return cls(cell, by_lane, holders, reached_cells(cell, holders, sought.warp), sought.warp)

    @property
    def about(self) -> str:
        """The fragment."""
        return self.cell.fragment.id

    @property
    def in_words(self) -> Iterator[str]:
        """A line an element, or a line a slot; what it rests on; cells of tensor memory."""
        cell, name = self.cell, self.cell.fragment.label
        if cell.in_memory:
            yield from (Whole(f"[{holder.row}][{holder.col}]: element offset {holder.i}") for holder in self.holders)
        elif self.by_lane:
            yield from (Whole(f"{holder}: {name}{holder.element}") for holder in self.holders)
        else:
            by_element: dict[str, list[str]] = {}
            for holder in self.holders:
                by_element.setdefault(holder.element, []).append(str(holder))
            yield from (Whole(f"{name}{element}: {'; '.join(texts)}") for element, texts in by_element.items())
        if cell.fragment.container:
            yield cell.fragment.container
        selector_text = "" if cell.selector is None else f" under selector {cell.selector}"
        yield f"{cell.fragment.id}{selector_text} on {cell.arch}, {cell.evidence}"
        yield line(least([cell]))
        whose = "relative to the address" if self.warp is None else f"of warp {self.warp}"
        for holder, reached in zip(self.holders, self.cells, strict=True):
            if reached is not UNSET:
                yield Whole(f"{holder}: tensor memory lane {reached.lane}, column {reached.column} {whose}")

    def to_json(self) -> Json:
        """Plain data, `holders` in order."""
        cell = self.cell
        answer = LocatedAnswer.of(
            cell,
            id=cell.fragment.id,
            confidence=confidence(cell).answer,
            status="measured" if cell.measured else cell.how,
            selector=UNSET if cell.selector is None else cell.selector,
            tmem=self.cells[0] if len(self.cells) == 1 else UNSET,
            holders=[
                LocatedHolder.of(holder, **cell.in_cta(holder.lane), tmem=at)
                for holder, at in zip(self.holders, self.cells, strict=True)
            ],
        )
        return plain(answer)


def check_warp(family: str, warp: int | None) -> None:
    """UsageError for a warp of anything but a load or store of tensor memory."""
    if warp is not None and family != "tcgen05":
        raise UsageError("`warp` applies to tcgen05.ld and .st, where each warp reaches its own lanes.")


def reached_cells(cell: Cell, holders: Sequence[Holder], warp: int | None) -> list[ReachedCell | UnsetType]:
    """The cell of each slot of a load or store of tensor memory: relative to the address, or with the lanes of a warp.

    UsageError for a warp of anything else, and for one that a warpgroup does not have.
    """
    if cell.in_cta(0):
        return [UNSET for _ in holders]
    check_warp(cell.fragment.family, warp)
    if cell.fragment.family != "tcgen05":
        return [UNSET for _ in holders]
    if (warp or 0) >= WARPGROUP // WARP:
        raise UsageError(f"a warpgroup has no warp {warp}: 0 to {WARPGROUP // WARP - 1}.")
    return [ReachedCell.of(holder, lane=WARP * (warp or 0) + holder.row, column=holder.col) for holder in holders]
