"""What pages say of an instruction, whether it holds anything in registers or not."""

from __future__ import annotations

from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Place, Role
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.tables import spans
from tcprobe.sass import lowering
from tcprobe.sass.lowering import Lowering


def what(instruction: Instruction, every_n: bool = False) -> str:
    """What an instruction does, in words, and where operands are that are in no registers."""
    beyond = [o.name for o in instruction.operands if o.place is not Place.REGISTERS and o.role is not Role.SOURCE]
    shared = f" Not in registers: {', '.join(beyond)}." if beyond and instruction.multiplies else ""
    if not instruction.multiplies:
        places = list(dict.fromkeys(o.place.value for o in instruction.operands if o.place is not Place.IMMEDIATE))
        return f"Moves matrices between {' and '.join(places) if len(places) > 1 else 'lanes'}."
    products = f"{instruction.products} products of " if instruction.products > 1 else ""
    shape = instruction.shape
    if not shape.m:
        return f"D = A B + C; M and N are in a descriptor, K is {shape.k}.{shared}"
    return f"D = A B + C: {products}{shape.m} x {shape.k} times {shape.k} x {'N' if every_n else shape.n}.{shared}"


def targets(instruction: Instruction) -> str:
    """From which targets on, in words."""
    return " or ".join(f"{target}, PTX {ptx}" for target, ptx in instruction.target.options)


def variants(instruction: Instruction) -> list[tuple[str, str]]:
    """(what varies in the form, its values) as PTX documents them."""
    return [(name.replace("_", " "), ", ".join(map(str, values))) for name, values in instruction.stated.items()]


def lowerings(facts: Facts, instruction: Instruction) -> list[tuple[str, str, str]]:
    """(archs in words, words, archs one by one), archs with the same together."""
    by_text: dict[str, list[str]] = {}
    for arch, bodies in facts.lowerings.items():
        saved = next((body for body in bodies if instruction.id in body["instructions"]), None)
        if saved:
            low = Lowering(**saved["instructions"][instruction.id])
            refused = (low.refused or "").replace(f" on .target '{arch}'", "")
            text = lowering.words(low, instruction) + (f" ({refused})" if refused else "")
            by_text.setdefault(text, []).append(arch)
    return [(spans(archs), text, " ".join(archs)) for text, archs in by_text.items()]
