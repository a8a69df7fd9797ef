"""A C++17 header without dependencies: row, col and their inverse as constexpr functions, for host and device.

There is one struct for each fragment and arch, sm_70::NAME, and NAME itself: that of TCPROBE_ARCH (in device code
__CUDA_ARCH__), which does not exist for an arch without a table. Host code without TCPROBE_ARCH gets NAME if all archs
agree, else only its sizes: the layout does not compile. nvcc also compiles kernels in its host pass, so there the
functions are declared for the device. A static_assert checks all slots: the hash of all elements, and that the inverse
leads back. Metadata has a struct for each selector, which also has the lanes that are read and how an index is written.
Headers with common fragments can be included together: what they share is defined once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tcprobe import __version__
from tcprobe.code.cuda import once, register_type
from tcprobe.emit import common
from tcprobe.emit.common import cell_identifier, counting, formulas, id_and_selector
from tcprobe.errors import UsageError
from tcprobe.fit.formula import in_manual
from tcprobe.fit.linear import cached_inverse
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import SINGLE_FIELD, Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table
from tcprobe.store.cell import Cell, sources
from tcprobe.text import comment

WHAT = "C++17 header: constexpr row, col and their inverse for host and device, self-checking"
ARCHS = SELECTORS = "all"
ROLES = (Role.METADATA, Role.SCALE, Role.ADDRESS)
OFFSET, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1  # FNV-1a, 64 bits


def emit(cells: Sequence[Cell]) -> str:
    """All fragments of `cells`; TCPROBE_ARCH selects among several archs of one fragment."""
    by_fragment: dict[str, list[Cell]] = {}
    for cell in cells:
        by_fragment.setdefault(cell_identifier(cell), []).append(cell)
    layouts = {_map(cell): cell for cell in cells}
    newest = max(map(_number, cells))
    lines = [f"// made by tcprobe {__version__}; tables: {comment(sources(cells))}; {counting(cells)}"]
    by_instruction = common.archs_by_instruction(cells)
    lines.append("#pragma once")
    if by_instruction:
        lines.append(
            "// calls::NAME: the multiply of registers; NAME: the same with ::A, ::B, ::C, ::D, who holds what"
        )
        lines += ["namespace tcprobe {", *_calls(by_instruction), "}  // namespace tcprobe"]
    lines += [
        "",
        *common.cuda_text("header", newest=newest, newest_arch=newest // 10, offset=OFFSET, prime=PRIME),
        "",
    ]
    if any(map(common.is_partial, cells)):
        lines += common.cuda_text("read", offset=OFFSET, prime=PRIME)
    if any(map(common.is_metadata, cells)):
        lines += common.cuda_text("metadata", zero=SINGLE_FIELD[0], one=SINGLE_FIELD[1])
    for cell in layouts.values():
        lines += _layout(cell)
    lines += ["namespace tcprobe {", ""]
    for variants in by_fragment.values():
        lines += once(list(_fragment(variants, newest)))
    for instruction, archs in by_instruction.items():
        lines += once(list(common.call_struct(instruction, archs, _condition(list(archs), newest))))
    return "\n".join([*lines, "}  // namespace tcprobe"])


def _calls(instructions: Iterable[Instruction]) -> Iterator[str]:
    """What a kernel calls comes first; NAME, with the layouts of its operands A, B, C, D, is derived from it."""
    for instruction in instructions:
        yield from once(list(common.warpgroup_functions(instruction))) if instruction.described else ()
        yield from once(list(common.call_functions(instruction)))


def _layout(cell: Cell) -> Iterator[str]:
    """The struct of a layout, defined once even if several headers are included."""
    table = cell.table
    if None in table.cells and not common.is_partial(cell):
        raise UsageError(f"{cell.fragment.id} on {cell.arch} has unused slots, which the header cannot express.")
    backward = cached_inverse(table)
    if backward is None:
        raise UsageError(f"{cell.fragment.id} on {cell.arch}: the inverse has no closed form.")
    copies = max(map(len, table.inverse.values()))
    sizes = {"lane": table.threads, "i": table.elements, "copy": copies, **table.extent}
    bits = {name: (size - 1).bit_length() for name, size in sizes.items()}
    forward = {"col": "0", "product": "0"} | {name: formula.text(bits) for name, formula in formulas(cell).items()}
    guard = f"TCPROBE_{_map(cell).upper()}"
    yield from (f"#ifndef {guard}", f"#define {guard}", "namespace tcprobe {")
    if sentence := in_manual(formulas(cell).values()):
        yield f"/// {sentence}"
    yield f"struct {_map(cell)} {{"
    yield from _constants({"lanes": table.threads, "elements": table.elements, "copies": copies})
    for name in ("row", "col", "product"):
        yield f"  /// {name} of the element that slot (lane, i) holds; lane < {table.threads}, i < {table.elements}"
        yield from _function(name, ("lane", "i"), forward[name])
    for name in ("lane", "i"):
        yield f"  /// {name} of the holder of an element; of its copy-th, 0 <= copy < copies"
        arguments = ("row", "col", "copy", "product")
        yield from _function(f"{name}_of", arguments, backward[name].text(bits), {"copy": 0, "product": 0})
    if common.is_partial(cell):
        slots = common.slots_read(cell)
        yield "  /// whether slot (lane, i) is looked at; without i whether the register of the lane is"
        yield from _function("read", ("lane", "i"), slots.condition, {"i": slots.elements.value}, "bool")
    yield "};"
    yield f'static_assert({_proof(cell)}, "not the layout that was measured");'
    yield from ("}  // namespace tcprobe", "#endif", "")


def _map(cell: Cell) -> str:
    """The name of the struct of a layout, which fragments and archs may share."""
    kind = cell.fragment.role.value if common.is_partial(cell) else "layout"
    return f"{kind}_{cell.table.id}"


def _proof(cell: Cell) -> str:
    name, checksum = _map(cell), f"{digest(cell.table):#x}ull"
    governs = f"governs<{name}>({checksum}, {cell.fragment.span})"
    return governs if common.is_partial(cell) else f"proven<{name}>({checksum})"


def _function(
    name: str,
    arguments: Sequence[str],
    expression: str,
    optional: Mapping[str, int] = MappingProxyType({}),
    kind: str = "int",
) -> Iterator[str]:
    declared = ", ".join(f"int {a} = {optional[a]}" if a in optional else f"int {a}" for a in arguments)
    yield f"  TCPROBE_HD static constexpr {kind} {name}({declared}) {{"
    yield f"    {' '.join(f'(void){a};' for a in arguments)}"
    yield from (f"    return {expression};", "  }")


def _fragment(variants: Sequence[Cell], newest: int) -> Iterator[str]:
    """The structs of a fragment, one for each arch: its layout, and how its elements are packed into registers."""
    fragment, name, sizes = variants[0].fragment, cell_identifier(variants[0]), _sizes(variants[0])
    by_method: dict[str, list[str]] = {}
    for cell in variants:
        by_method.setdefault(cell.evidence.removeprefix("measured: ").partition(",")[0], []).append(cell.arch)
    known = "; ".join(f"{how} ({', '.join(archs)})" for how, archs in by_method.items())
    yield f"/// {id_and_selector(variants[0])}: {fragment.rows} x {fragment.cols} of {fragment.type}; {comment(known)}"
    groups: dict[str, list[Cell]] = {}
    for cell in variants:
        groups.setdefault(cell.table.id, []).append(cell)
    for first, *others in groups.values():
        bases = [_map(first), *([common.indices_base(fragment)] if common.is_metadata(first) else [])]
        yield f"namespace {first.arch} {{"
        yield from (f"struct {name} : {', '.join(bases)} {{", _word(fragment), *_constants(sizes), "};")
        yield f"}}  // namespace {first.arch}"
        yield from (f"namespace {cell.arch} {{ struct {name} : {first.arch}::{name} {{}}; }}" for cell in others)
    yield from _struct_of_target(name, list(groups.values()), newest)


def _struct_of_target(name: str, cells_by_table: Sequence[Sequence[Cell]], newest: int) -> Iterator[str]:
    """The struct of TCPROBE_ARCH; without that, the common one if all archs agree, else what host code must do."""
    last = max((cell for group in cells_by_table for cell in group), key=_number)
    alike = len(cells_by_table) == 1
    if len(cells_by_table) > 1:
        fragment = last.fragment
        sizes = {"lanes": fragment.threads, "elements": fragment.elements, "copies": fragment.copies}
        yield "#if !defined(TCPROBE_ARCH)"
        yield f"struct {name} : host_code_has_to_define_TCPROBE_ARCH_or_to_name_a_GPU<{name}> {{"
        yield from (_word(fragment), *_constants(sizes | _sizes(last)), "};")
    for group in cells_by_table:
        condition = _condition([cell.arch for cell in group], newest, last in group)
        yield f"#if !defined(TCPROBE_ARCH) || {condition}" if alike else f"#elif {condition}"
        yield f"struct {name} : {group[0].arch}::{name} {{}};"
    yield from ("#endif", "")


def _condition(archs: Sequence[str], newest: int, last: bool = True) -> str:
    """Whether TCPROBE_ARCH is one of `archs`; with `last`, or newer than all."""
    numbers = [f"TCPROBE_ARCH == {arch.arch(name).number * 10}" for name in archs]
    return " || ".join([*numbers, *([f"TCPROBE_ARCH > {newest}"] if last else [])])


def _word(fragment: Fragment) -> str:
    return f"  using word = {register_type(fragment)};  // a register"


def _sizes(cell: Cell) -> dict[str, int]:
    names = ("rows", "cols", "registers", "register_bits", "slot_bits", "products")
    sizes = {name: getattr(cell.fragment, name) for name in names}
    return sizes | ({} if cell.selector is None else {"selector": cell.selector})


def _constants(constants: Mapping[str, int]) -> Iterator[str]:
    yield from (f"  static constexpr int {name} = {value};" for name, value in constants.items())


def _number(cell: Cell) -> int:
    """The arch as __CUDA_ARCH__ counts."""
    return arch.arch(cell.arch).number * 10


def digest(table: Table) -> int:
    """What `proven` computes of the measured table, or `governs` of one with slots that are not read."""
    hash_ = OFFSET
    for cell in table.cells:
        row, col, product = (*(cell or ()), 0, 0, 0)[:3]
        hash_ = (hash_ ^ (MASK if cell is None else (row * 65536 + col) * 8 + product)) * PRIME & MASK
    return hash_
