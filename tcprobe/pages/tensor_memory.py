"""The page of tensor memory: what references state of tcgen05's loads, stores and copies, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from tcprobe.ask.tensor_memory import OperandVariant, is_documented, operands, placement
from tcprobe.errors import answer_or_none
from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.pages.tables import page, row_and_col
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


def tensor_memory_page(results: Results) -> list[str]:
    """What references state, and by arch how many operands were measured, which of them unlike every document."""
    measured = []
    for name in findings.archs(results, KIND):
        every = alone(results).findings(KIND, name)
        otherwise = [id_ for id_, finding in every.items() if not is_documented(finding)]
        counts = str(len(every)), str(len(every) - len(otherwise))
        measured.append([name, *counts, some(otherwise, 2) if otherwise else "-"])
    return page("tensor_memory.md", measured=measured, newer=newer_forms, lacking=_lacking, **_stated())


@cache
def _stated() -> dict[str, list[list[str]]]:
    """The tables of what is stated: no results change them."""
    multiplies = (row for row in inventory.instructions().values() if row.multiplies and row.unprobed)
    return {
        "moves": [line for shape in cute.MEMORY_ATOMS for line in _moves(shape)],
        "copies": list(_copies()),
        "operands": [line for id_, vector in PLACED for line in _operands(id_, vector)],
        "multiplies": list(map(_multiply, multiplies)),
        "forms": list(map(_form, newer_forms.FORMS)),
        "shapes": list(map(_shape, newer_forms.SHAPES)),
    }


def _lacking(target: str) -> str:
    lacking = newer_forms.LACKING.get(target)
    return f", but not {', '.join(f'`{pattern}`' for pattern in lacking)}" if lacking else ""


def _form(newer: newer_forms.NewerForm) -> list[str]:
    by_version: dict[str, list[str]] = {}
    for target, ptx in newer.targets:
        by_version.setdefault(ptx, []).append(target)
    targets = "; ".join(f"{', '.join(names)} ({ptx})" for ptx, names in by_version.items())
    return [f"`{newer.name}`", targets, newer.text or f"accepted by {newer_forms.BY}, not documented", newer.refusal]


def _shape(newer: newer_forms.NewerShape) -> list[str]:
    step = newer.n[1] - newer.n[0]
    k = f"{newer.k}, sparse {newer.sparse_k}" if newer.sparse_k else str(newer.k)
    sizes = [str(newer.m), f"{newer.n[0]} to {newer.n[-1]} by {step}", k]
    scales = ", ".join(newer.scales) or "-"
    form = f"`tcgen05.mma.cta_group::{newer.group}.kind::{newer.kind}`"
    return [form, *sizes, scales, newer.descriptor, newer.source]


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
