"""Structs for the instructions whose fragments are emitted: what to call, and which fragments its arguments are.

There is sm_XX::NAME for every arch that has tables of all fragments, and NAME, whose fragments are those of
TCPROBE_ARCH.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.code import call
from tcprobe.code.names import identifier
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.store.cell import Cell
from tcprobe.text import comment

DEVICE = "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)"


def archs_by_instruction(cells: Sequence[Cell]) -> Mapping[Instruction, list[str]]:
    """The instructions all of whose fragments have tables on some arch, with these archs."""
    rows = inventory.instructions()
    ids = dict.fromkeys(id_ for cell in cells for id_ in inventory.user_ids(cell.fragment.id))
    on: dict[str, set[str]] = {}
    for cell in cells:
        on.setdefault(cell.fragment.id, set()).add(cell.arch)
    by_row: dict[Instruction, list[str]] = {}
    for row in filter(call.callable_, (rows[id_] for id_ in ids)):
        whole = set.intersection(*(on.get(fragment.id, set()) for fragment in row.fragments))
        archs = [name for name in dict.fromkeys(cell.arch for cell in cells) if name in whole]
        by_row |= {row: archs} if archs else {}
    return by_row


def functions(instruction: Instruction) -> Iterator[str]:
    """What all archs share: the functions, or a compiler error for a target without the instruction."""
    needs = call.needs(instruction)
    base = " : warpgroup" if instruction.described else ""
    yield "namespace calls {"
    yield f"/// {comment(instruction.name)}; -arch={needs}"
    yield f"struct {identifier(instruction.id)}{base} {{"
    yield from (DEVICE, f"#if {call.guard(instruction)}")
    yield from (f"  {line}" for line in call.functions(instruction))
    yield "#else"
    yield "  template <int..., class... T>"
    yield f"  __device__ static void {call.verb(instruction)}(T&&...) {{"
    yield f'    static_assert(sizeof...(T) > 99, "{instruction.id} needs -arch={needs}");'
    yield from ("  }", "#endif", "#endif", "};", "}  // namespace calls")


def around(instruction: Instruction) -> Iterator[str]:
    """What goes around the multiplies of a warpgroup; nothing for a target without them."""
    yield "namespace calls {"
    yield "struct warpgroup {"
    yield from (DEVICE, f"#if {call.guard(instruction)}")
    yield from (f"  {line}" for line in call.around())
    yield from ("#endif", "#endif", "};", "}  // namespace calls")


def struct(instruction: Instruction, archs: Sequence[str], condition: str) -> Iterator[str]:
    """The structs of archs, and the one of TCPROBE_ARCH, which exists if `condition` holds."""
    name = identifier(instruction.id)
    own = {f.operand.upper(): identifier(f.id) for f in instruction.fragments if not f.selectors}
    using = " ".join(f"using {operand} = {fragment};" for operand, fragment in own.items())
    for arch in archs:
        yield f"namespace {arch} {{ struct {name} : calls::{name} {{ {using} }}; }}"
    yield f"#if !defined(TCPROBE_ARCH) || {condition}"
    yield f"struct {name} : calls::{name} {{ {using} }};"
    yield "#endif"
