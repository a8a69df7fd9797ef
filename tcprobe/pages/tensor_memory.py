"""The page of tensor memory: what references state of tcgen05's loads, stores and copies, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from tcprobe.ask.tensor_memory import OperandVariant, is_documented, operands, placement
from tcprobe.errors import answer_or_none
from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.pages.tables import MADE, grid, row_and_col
from tcprobe.references import cute, newer_forms, tensor_memory
from tcprobe.references.tensor_memory import accumulator_layout
from tcprobe.store import findings
from tcprobe.store.choose import alone, some
from tcprobe.store.kinds.tensor_memory import KIND
from tcprobe.store.results import Results

# forms whose operands are shown, and how many scales a row has
PLACED = (
    *(
        (f"tcgen05.mma{variant}.kind::f16", 0)
        for variant in (
            ".cta_group::1",
            ".cta_group::2",
            ".ws.cta_group::1",
            ".sp.cta_group::1",
            ".sp.cta_group::2",
            ".ws.sp.cta_group::1",
        )
    ),
    *((f"tcgen05.mma.cta_group::{group}.kind::mxf4nvf4", 4) for group in (1, 2)),
)


def page(results: Results) -> list[str]:
    """The page's lines."""
    measured = list(_measured_lines(results))
    return [*_head(bool(measured)), *_documented_lines(), *measured]


def _head(is_measured: bool) -> Iterator[str]:
    yield from (MADE, "# Tensor memory", "")
    yield "128 lanes of 512 columns of 32 bits; warp w of a warpgroup reaches lanes 32 w to 32 w + 31. Rows are lanes"
    if is_measured:
        yield "and columns are columns, both relative to the address. This is what sources state; measurements are"
        yield "at the end. [lowering.md](lowering.md) has its opcodes."
        return
    yield (
        "and columns are columns, both relative to the address. **None of this is measured**: no GPU with tensor memory"
    )
    yield "was available, and its machine instructions show no layout. [lowering.md](lowering.md) has its opcodes."


def _measured_lines(results: Results) -> Iterator[str]:
    """By arch how many operands were measured, and which of them differ from every document."""
    archs = findings.archs(results, KIND)
    if not archs:
        return
    yield from ("", "## Measured", "", "Operands of multiplies, and what copies write:", "")
    rows = []
    for name in archs:
        every = alone(results).findings(KIND, name)
        otherwise = [id_ for id_, finding in every.items() if not is_documented(finding)]
        counts = str(len(every)), str(len(every) - len(otherwise))
        rows.append([name, *counts, some(otherwise, 2) if otherwise else "-"])
    yield from grid(["arch", "operands", "as documented", "different"], rows)


@cache
def _documented_lines() -> tuple[str, ...]:
    """What is stated: no results change it."""
    return (*_stated_lines(), *_newer())


def _stated_lines() -> Iterator[str]:
    """Registers of loads and stores, lanes of copies, and what multiplies keep there."""
    yield from ("", "## Loads and stores", "")
    yield "Register i of a lane of tcgen05.ld and tcgen05.st, by shape and repetitions. PTX ISA shows figures only."
    yield ""
    heads = ["shape", "repetitions", "rows x columns", "registers", "row", "col", "stated by"]
    yield from grid(heads, (line for shape in cute.MEMORY_ATOMS for line in _moves(shape)))
    yield from (
        "",
        "The second access of 16x32bx2 may be anywhere; the table has CuTe's choice, right after the first.",
    )
    yield from ("", "## Copies", "")
    yield "tcgen05.cp: the lanes that get row r of the source. Columns are those of the source."
    yield ""
    yield from grid(["shape", "multicast", "rows x columns", "lanes", "held"], _copies())
    yield from ("", "## Operands of multiplies", "")
    yield "The element that a cell holds, of kind::f16, and of block scales of kind::mxf4nvf4 with 4X; part counts the"
    yield "elements of a cell from its low bits. `tcprobe where` and `show` have every kind, M and N, and sources."
    yield ""
    heads = ["operand", "layout", "M", "held", "row", "col", "differs in"]
    yield from grid(heads, (line for id_, vector in PLACED for line in _operands(id_, vector)))
    yield from ("", "## Multiplies", "")
    yield "M and N are in a descriptor. A may be in tensor memory too, B is in shared memory."
    yield ""
    rows = (row for row in inventory.instructions().values() if row.multiplies and row.unprobed)
    yield from grid(["form", "M", "N", "K", "D", "A and B", "scales"], map(_multiply, rows))


def _newer() -> Iterator[str]:
    """What came with newer targets, as far as a compiler takes it."""
    yield from ("", "## Newer forms and targets", "")
    yield f"What {newer_forms.BY} accepts on which targets, and since which PTX version; none of it is measured. The"
    yield "last column is its message on another target."
    yield ""
    yield from grid(["form", "targets (PTX)", "documented in", "refused elsewhere"], map(_form, newer_forms.FORMS))
    yield ""
    for target, families in newer_forms.SM_107.items():
        lacking = newer_forms.LACKING.get(target)
        but = f", but not {', '.join(f'`{pattern}`' for pattern in lacking)}" if lacking else ""
        yield f"- {target}: forms of {', '.join(families)}{but}"


def _form(newer: newer_forms.NewerForm) -> list[str]:
    by_version: dict[str, list[str]] = {}
    for target, ptx in newer.targets:
        by_version.setdefault(ptx, []).append(target)
    targets = "; ".join(f"{', '.join(names)} ({ptx})" for ptx, names in by_version.items())
    return [f"`{newer.name}`", targets, newer.text or f"accepted by {newer_forms.BY}, not documented", newer.refusal]


def _operands(id_: str, vector: int) -> Iterator[list[str]]:
    form = inventory.instructions()[id_]
    names = ("scale_a", "scale_b") if vector else ("d", "a", "e")
    for in_memory in (each for each in operands(form) if each.name in names):
        for m in form.stated["m_values"]:
            operand_placement = answer_or_none(partial(placement, in_memory, OperandVariant(int(m), vector=vector)))
            if operand_placement is None:  # nobody states it: A of .ws with M = 32, of .ws.sp with 64 too
                letter = accumulator_layout(form.id, int(m))
                yield [f"`{in_memory.id}`", letter, str(m), "-", "not stated", "not stated", "-"]
                continue
            row, col = row_and_col(operand_placement.table)
            others = "; ".join(other.source for other in operand_placement.statements[1:])
            copies = f"{operand_placement.copies} times" if operand_placement.copies > 1 else "once"
            yield [f"`{in_memory.id}`", str(operand_placement.letter), str(m), copies, row, col, others or "-"]


def _moves(shape: str) -> Iterator[list[str]]:
    numbers = [int(n) for n in inventory.instructions()[f"tcgen05.ld.{shape}"].stated["num"]]
    name = f"CuTe, SM100_TMEM_LOAD_{cute.MEMORY_ATOMS[shape].name}"
    for number in (numbers[0], numbers[-1]):
        table = cute.tensor_memory_table(shape, number)
        row, col = (f"`{fitted(table).formulas[output]}`" for output in ("row", "col"))
        size = f"{table.extent['row']} x {table.extent['col']}"
        yield [shape, f"x{number}", size, str(table.elements), row, col, name]


def _copies() -> Iterator[list[str]]:
    for shape, multicast in (("4x256b", ""), *tensor_memory.COPY_RUNS):
        table, lanes = tensor_memory.copy_table(shape, multicast), tensor_memory.copy_lanes(shape, multicast)
        lanes_text = f"row 0: {_list(lanes[0])}; row {len(lanes) - 1}: {_list(lanes[-1])}"
        copies = min(table.copies)
        held = "once" if set(table.copies) == {1} else f"{copies} times"
        yield [shape, multicast or "-", f"{len(lanes)} x {table.extent['col']}", lanes_text, held]


def _multiply(instruction: Instruction) -> list[str]:
    documented = instruction.stated
    types = (_list(documented[name]) for name in ("d_types", "ab_types"))
    shape = (_list(documented["m_values"]), _range(documented["n_values"]), str(instruction.shape.k))
    return [f"`{instruction.id}`", *shape, *types, _list(documented.get("scales", ("-",)))]


def _list(stated_values: tuple[int | str, ...]) -> str:
    return ", ".join(map(str, stated_values))


def _range(stated_values: tuple[int | str, ...]) -> str:
    """Values in equal steps by their ends."""
    numbers = [int(n) for n in stated_values]
    step = numbers[1] - numbers[0]
    even = len(numbers) > 3 and numbers == list(range(numbers[0], numbers[-1] + 1, step))
    return f"{numbers[0]}, {numbers[1]}, ... {numbers[-1]}" if even else _list(stated_values)
