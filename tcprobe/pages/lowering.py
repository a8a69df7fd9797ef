"""What multiplies and matrix moves become in machine code, and the layouts of those machine instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.pages.tables import MADE, MANUAL, code, fitting, grid, heading_anchor, row_and_col, spans
from tcprobe.sass.lowering import NOTHING, Lowering
from tcprobe.store.results import Results
from tcprobe.text import markdown
from tcprobe.values import Json

LAYOUTS = "Layouts of machine instructions"
# (archs, words) of all archs, and the forms that become that
IdsByLowering = dict[tuple[tuple[str, str], ...], list[str]]


def there(results: Results) -> bool:
    """Whether a folder has anything to say of machine code."""
    return any(results.lowering(name) or results.opcodes(name) for name in results.archs())


def page(results: Results) -> Iterator[str]:
    """A section a family, and one of opcodes."""
    saved = {name: body for name in results.archs() if (body := results.lowering(name))}
    families = _families(saved)
    yield from (MADE, "# What each multiply and matrix move becomes in machine code", "")
    yield "Tensor-core opcodes with counts, as ptxas emits them. *emulated*: opcodes of another type, or none. On archs"
    yield "that are not named, ptxas refuses the form. `tcprobe lower` has each form separately, how many other"
    yield "instructions an emulated one takes, and the routines that the compiler links for it."
    yield ""
    yield from (f"- [{title}](#{heading_anchor(title)})" for title in (*families, LAYOUTS))
    for family, lines in families.items():
        yield from ("", f"## {family}", "")
        yield from grid(["forms", "archs", "opcodes"], _rows(lines))
    yield from _layouts(results)
    yield from _compilers(saved)


def _compilers(saved: Mapping[str, Json]) -> Iterator[str]:
    archs: dict[str, list[str]] = {}
    for name, body in saved.items():
        archs.setdefault(body["compiler"], []).append(name)
    yield from ("", "## Compilers", "")
    yield from (f"- {spans(names)}: {markdown(compiler)}" for compiler, names in archs.items())


def _families(saved: Mapping[str, Json]) -> dict[str, IdsByLowering]:
    families: dict[str, IdsByLowering] = {}
    for row in inventory.instructions().values():
        bodies = {name: body["instructions"].get(row.id) for name, body in saved.items()}
        key = _archs({name: _words(body, row) for name, body in bodies.items() if body and not body["refused"]})
        if key:
            families.setdefault(row.family, {}).setdefault(key, []).append(row.id)
    return families


def _archs(words_by_arch: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(archs, words); archs with the same words share an entry."""
    archs: dict[str, list[str]] = {}
    for name, words in words_by_arch.items():
        archs.setdefault(words, []).append(name)
    return tuple((spans(names), words) for words, names in archs.items())


def _words(lowering_json: Json, instruction: Instruction) -> str:
    lowering = Lowering(**lowering_json)
    text = fitting([f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowering.opcodes.items()], 90)
    return text if lowering.native(instruction) else f"*emulated*: {text or NOTHING[instruction.multiplies]}"


def _rows(by_lowering: IdsByLowering) -> Iterator[list[str]]:
    for words_by_archs, ids in by_lowering.items():
        names = fitting(code(ids))
        yield from ([names if number == 0 else "", *pair] for number, pair in enumerate(words_by_archs))


def _layouts(results: Results) -> Iterator[str]:
    """The layouts of tensor-core machine instructions; opcodes that are alike share a line."""
    lines: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name in results.archs():
        for opcode, saved in results.opcodes(name).items():
            for operands, layout in _operands(saved["layouts"]).items():
                key = (operands, f"[{layout[:6]}](layouts/{layout}.json)", *row_and_col(results.layout(layout)))
                lines.setdefault(key, []).append((opcode, name))
    if lines:
        yield from ("", f"## {LAYOUTS}", "")
        yield "Which element each register of an instruction holds: i counts a lane's elements of the operand from the"
        yield "low bits of its first register. wmma.load, the instruction and wmma.store anchor it in memory addresses."
        yield "HMMA.884 stands for all its STEPs, which share A and B; its .ROW and .COL are on the operands A and B. A"
        yield "warp does four such products at a time, one for each quad pair."
        yield MANUAL
        yield ""
        rows = (
            [fitting(code(dict.fromkeys(o for o, _ in origins))), spans(a for _, a in origins), *key]
            for key, origins in sorted(lines.items(), key=lambda line: line[1])
        )
        yield from grid(["opcodes", "archs", "operand", "layout", "row", "col"], rows)


def _operands(layout_ids: Mapping[str, str]) -> dict[str, str]:
    """Layouts by operand, C with D where it has the same."""
    by_operand = {name.upper(): layout_ids[name] for name in MULTIPLIED}
    if layout_ids.get("c", layout_ids["d"]) == layout_ids["d"]:
        return by_operand
    return {**by_operand, "C": layout_ids["c"]}
