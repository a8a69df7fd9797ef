"""What several formats share: comments about a source, names in code, and the layout if it must be linear.

Which slots are read, if not all are (metadata under a selector, scales, addresses): the lanes with (lane & mask) ==
value; of them all elements i, or those with (i & mask) == value. Of metadata under a selector all fields are used.

Structs for the instructions whose fragments are emitted say what to call, and which fragments its arguments are. There
is sm_XX::NAME for every arch that has tables of all fragments, and NAME, whose fragments are those of TCPROBE_ARCH.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib.resources import files
from string import Template
from typing import NamedTuple

from tcprobe import __version__
from tcprobe.code.cuda import (
    among,
    around_multiplies,
    function_name,
    has_functions,
    holder,
    instruction_functions,
    needed_target,
    origin,
    target_guard,
)
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.fit import Formula, Layout, fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import SINGLE_FIELD, Instruction, sparsity
from tcprobe.isa.names import search
from tcprobe.isa.operand import Role
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell
from tcprobe.text import comment


class BitMask(NamedTuple):
    """Numbers n with (n & mask) == value."""

    mask: int
    value: int

    def condition(self, name: str) -> str:
        """The condition, in C, Python and NumPy alike."""
        return f"({name} & {self.mask}) == {self.value}"


class SlotsRead(NamedTuple):
    """The slots that are read: these elements of these lanes."""

    lanes: BitMask
    elements: BitMask

    @property
    def condition(self) -> str:
        """The condition in C."""
        lanes = self.lanes.condition("lane")
        return f"{lanes} && {self.elements.condition('i')}" if self.elements.mask else lanes


def is_partial(cell: Cell) -> bool:
    """Whether slots may be unused by design."""
    return cell.fragment.role in (Role.METADATA, Role.SCALE, Role.ADDRESS)


def lanes_read(cell: Cell) -> list[int]:
    """The lanes with a used slot."""
    table = cell.table
    return [lane for lane in range(table.threads) if any(table.cells[lane * table.elements :][: table.elements])]


def slots_read(cell: Cell) -> SlotsRead:
    """The slots that are read; UsageError if no masks of lane and i describe them."""
    if slots := slots_matching(cell):
        return slots
    raise UsageError(f"{cell.fragment.id} on {cell.arch}: no mask of lane tells which slots are read.")


def slots_matching(cell: Cell) -> SlotsRead | None:
    """The slots that are read; None if no masks of lane and i describe them."""
    table, lanes = cell.table, lanes_read(cell)
    used = [divmod(slot, table.elements) for slot, place in enumerate(table.cells) if place is not None]
    elements = sorted({i for _, i in used})
    slots = SlotsRead(_pattern(lanes, table.threads), _pattern(elements, table.elements))
    product = [
        (lane, i) for lane in _matching(slots.lanes, table.threads) for i in _matching(slots.elements, table.elements)
    ]
    return slots if product == used else None


def _pattern(numbers: Sequence[int], size: int) -> BitMask:
    """The bits that all numbers share."""
    ones, zeros = reduce(int.__and__, numbers), reduce(int.__and__, (~number for number in numbers))
    return BitMask((ones | zeros) & size - 1, ones)


def _matching(pattern: BitMask, size: int) -> list[int]:
    return [number for number in range(size) if number & pattern.mask == pattern.value]


def lanes_in_words(cell: Cell) -> str:
    """The lanes that are read, in words: by a mask if there is one, else one by one."""
    slots = slots_matching(cell)
    return f"with {slots.lanes.condition('lane')}" if slots else ", ".join(map(str, lanes_read(cell)))


def is_metadata(cell: Cell) -> bool:
    """Whether the slots are index fields."""
    return cell.fragment.role is Role.METADATA


def require_every_lane(cell: Cell) -> None:
    """UsageError for metadata if some lanes are not read."""
    if is_metadata(cell) and None in cell.table.cells:
        raise UsageError(
            f"{cell.fragment.id} is read from {len(lanes_read(cell))} of {cell.table.threads} lanes under selector "
            f"{cell.selector}: this format cannot express slots that hold nothing."
        )


def indices_base(fragment: Fragment) -> str:
    """The C++ base class that defines how index fields are written."""
    return f"indices<{', '.join(map(str, sparsity(fragment)))}>"


def metadata_functions(cell: Cell) -> Iterator[tuple[str, str, str, str]]:
    """(name, arguments, description, body) of Python functions, which also take arrays."""
    rule = sparsity(cell.fragment)
    chunk = f"col // {rule.fields * rule.span} * {rule.positions} + index"
    k = chunk if rule.span == 1 else f"({chunk}) * {rule.span} + col % {rule.span}"
    code = "index" if rule.fields > 1 else f"({SINGLE_FIELD[0]} + {SINGLE_FIELD[1] - SINGLE_FIELD[0]} * index)"
    yield "read", "lane", "Whether the register of this lane is looked at", slots_read(cell).lanes.condition("lane")
    yield "field", "i, index", "The bits of the register that say the index of field i", f"{code} << {rule.bits} * i"
    yield "k", "col, index", "The column of A that a stored column is under an index", k


DEVICE = "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)"


def archs_by_instruction(cells: Sequence[Cell]) -> Mapping[Instruction, list[str]]:
    """The instructions all of whose fragments have tables on some arch, with these archs."""
    rows = inventory.instructions()
    ids = dict.fromkeys(id_ for cell in cells for id_ in inventory.user_ids(cell.fragment.id))
    on: dict[str, set[str]] = {}
    for cell in cells:
        on.setdefault(cell.fragment.id, set()).add(cell.arch)
    by_row: dict[Instruction, list[str]] = {}
    for row in filter(has_functions, (rows[id_] for id_ in ids)):
        whole = set.intersection(*(on.get(fragment.id, set()) for fragment in row.fragments))
        archs = [name for name in dict.fromkeys(cell.arch for cell in cells) if name in whole]
        by_row |= {row: archs} if archs else {}
    return by_row


def call_functions(instruction: Instruction) -> Iterator[str]:
    """What all archs share: the functions, or a compiler error for a target without the instruction."""
    needs = needed_target(instruction)
    base = " : warpgroup" if instruction.described else ""
    yield "namespace calls {"
    yield f"/// {comment(instruction.name)}; -arch={needs}"
    yield f"struct {identifier(instruction.id)}{base} {{"
    yield from (DEVICE, f"#if {target_guard(instruction)}")
    yield from (f"  {line}" for line in instruction_functions(instruction))
    yield "#else"
    yield "  template <int..., class... T>"
    yield f"  __device__ static void {function_name(instruction)}(T&&...) {{"
    yield f'    static_assert(sizeof...(T) > 99, "{instruction.id} needs -arch={needs}");'
    yield from ("  }", "#endif", "#endif", "};", "}  // namespace calls")


def warpgroup_functions(instruction: Instruction) -> Iterator[str]:
    """What goes around the multiplies of a warpgroup; nothing for a target without them."""
    yield "namespace calls {"
    yield "struct warpgroup {"
    yield from (DEVICE, f"#if {target_guard(instruction)}")
    yield from (f"  {line}" for line in around_multiplies())
    yield from ("#endif", "#endif", "};", "}  // namespace calls")


def call_struct(instruction: Instruction, archs: Sequence[str], condition: str) -> Iterator[str]:
    """The structs of archs, and the one of TCPROBE_ARCH, which exists if `condition` holds."""
    name = identifier(instruction.id)
    own = {f.operand.upper(): identifier(f.id) for f in instruction.fragments if not f.selectors}
    using = " ".join(f"using {operand} = {fragment};" for operand, fragment in own.items())
    for arch in archs:
        yield f"namespace {arch} {{ struct {name} : calls::{name} {{ {using} }}; }}"
    yield f"#if !defined(TCPROBE_ARCH) || {condition}"
    yield f"struct {name} : calls::{name} {{ {using} }};"
    yield "#endif"


def cuda_text(name: str, **values: int) -> list[str]:
    """Lines of C++ from NAME.h of this package, with values in the place of $names."""
    text = (files("tcprobe.emit") / f"{name}.h").read_text("utf-8")
    return Template(text).substitute(values).splitlines()


def id_and_selector(cell: Cell) -> str:
    """The id of a cell's fragment, and the selector that its table is of."""
    return cell.fragment.id + ("" if cell.selector is None else f", selector {cell.selector}")


def about(cell: Cell) -> list[str]:
    """A comment about a table: its fragment, arch, size and evidence."""
    fragment = cell.fragment
    size = f"{fragment.rows} x {fragment.cols} of {fragment.type}, {fragment.elements} elements a "
    return [
        f"{id_and_selector(cell)} on {cell.arch}: {size}{holder(fragment.threads)}, layout {cell.table.id}",
        f"{origin(cell)}; numbers from {cell.numbering}",
    ]


def counting(cells: Sequence[Cell]) -> str:
    """What lane and i count in formulas of these tables."""
    several = max(cell.fragment.threads for cell in cells)
    lane = (
        f"; lane is the thread of a {among(several)}, 0 to {several - 1}, for tables of {several}"
        if several > WARP
        else ""
    )
    return f"i counts a lane's elements from the low bits of its first register{lane}"


def heading(cells: Sequence[Cell], mark: str) -> list[str]:
    """The comment at the top of a file; each line begins with `mark`."""
    lines = [f"made by tcprobe {__version__}; {counting(cells)}"]
    lines += [line for cell in cells for line in about(cell)]
    return [f"{mark} {comment(line)}" for line in lines]


def formulas(cell: Cell) -> dict[str, Formula]:
    """Formulas of all outputs; UsageError if one has no closed form, or the table is not a whole fragment's."""
    by_output = fitted(cell.table).formulas
    whole = {name: formula for name, formula in by_output.items() if formula is not None}
    if len(whole) < len(by_output):
        raise UsageError(f"{cell.fragment.id} on {cell.arch}: no closed form, so this format cannot express it.")
    require_fit(cell.fragment, cell.table)
    return whole


def layout(cell: Cell) -> Layout:
    """The linear layout.

    UsageError if the map is not linear, if lane 0 i 0 does not hold element (0, 0), or if the table is not a whole
    fragment's.
    """
    fit = fitted(cell.table)
    if fit.layout is None:
        raise UsageError(f"{cell.fragment.id} on {cell.arch} is not linear: {fit.contradiction}.")
    if fit.layout.offset:
        raise UsageError(
            f"{cell.fragment.id} on {cell.arch} does not begin at zero: lane 0 i 0 holds {fit.layout.origin}."
        )
    require_fit(cell.fragment, cell.table)
    return fit.layout


def cell_identifier(cell: Cell) -> str:
    """The identifier of a fragment; for metadata with its selector."""
    return identifier(cell.fragment.id) + ("" if cell.selector is None else f"_selector{cell.selector}")


def instructions(cells: Sequence[Cell], behind: bool = False) -> Iterator[tuple[Instruction, dict[str, Cell]]]:
    """The instructions all of whose fragments are among `cells`, for each arch; for formats of whole instructions.

    With `behind`, also those with factors behind descriptors, in shared memory. UsageError if there is none, or if a
    table is not a whole fragment's.
    """
    by_id = {cell.fragment.id: cell for cell in cells}
    rows_by_id = inventory.instructions()
    rows = {
        **{row.id: row for n in dict.fromkeys(c.fragment.threads for c in cells) for row in inventory.executed_by(n)},
        **{
            c.fragment.experiment: rows_by_id[c.fragment.experiment]
            for c in cells
            if c.fragment.experiment in rows_by_id
        },
    }
    whole = [
        (row, {f.operand: by_id[f.id] for f in row.fragments})
        for row in rows.values()
        if row.fragments and all(f.id in by_id for f in row.fragments)
    ]
    elsewhere = [row.id for row, _ in whole if row.described and not behind]
    if elsewhere:
        raise UsageError(f"{elsewhere[0]} has a factor in shared memory, and this format describes registers only.")
    if not whole:
        raise UsageError("this format describes a whole instruction: give that, not single fragments.")
    for cell in cells:
        require_fit(cell.fragment, cell.table)
    yield from whole


def multiplies(cells: Sequence[Cell]) -> Iterator[tuple[Instruction, dict[str, Cell]]]:
    """As `instructions`; UsageError if one does not multiply."""
    for row, operands in instructions(cells):
        if not row.multiplies:
            raise search.no_multiply(row)
        yield row, operands
