"""`show` of operands in tensor memory: formulas, layout, and who states them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli.tensor_memory import place_operand, selectors
from tcprobe.errors import UsageError
from tcprobe.question.wrapping import line

if TYPE_CHECKING:
    from tcprobe.ask.tensor_memory import MemoryOperand, Placement
    from tcprobe.cli.requests import ShowRequest
    from tcprobe.isa.instruction import Instruction
    from tcprobe.store.choose import Layers


def print_memory(
    operand_or_form: MemoryOperand | Instruction, show: ShowRequest, layers: Layers, as_json: bool
) -> None:
    """`show` of an operand, or of all that a form has in tensor memory."""
    from tcprobe.ask.tensor_memory import SHIFTED, MemoryOperand, operands

    if isinstance(operand_or_form, MemoryOperand):
        _show(operand_or_form, show, layers, as_json)
        if not as_json:
            _print_contradictions(operand_or_form.form)
        return
    if not as_json:
        click.echo(click.style(operand_or_form.name, bold=True))
        _print_stated(operand_or_form)
    for operand in operands(operand_or_form):
        if operand.form.id == "tcgen05.shift.down":
            answer = {"id": operand_or_form.id, "instruction": operand_or_form.name, "why": SHIFTED}
            click.echo(json.dumps(answer) if as_json else SHIFTED)
        else:
            _show(operand, show, layers, as_json, alone=False)


def _print_stated(form: Instruction) -> None:
    """How the size of a scale's block is written, and what sources state against each other."""
    if sizes := form.stated.get("scale_vectorsize"):
        line(f"  .scale_vectorsize: {', '.join(map(str, sizes))}, as ptxas 12.9 to 13.5 takes it")
    _print_contradictions(form)


def _print_contradictions(form: Instruction) -> None:
    for words in form.stated.get("tables", ()):
        line(f"  sources differ: {words}")


def _show(in_memory: MemoryOperand, show: ShowRequest, layers: Layers, as_json: bool, alone: bool = True) -> None:
    """Print every selector and every number of scales; of a whole form say what nobody states, instead of an error."""
    from tcprobe.references import memory_operand

    counted = in_memory.name.startswith("scale_") and (show["vector"], in_memory.vector) == (None, None)
    for vector in memory_operand.vectors(in_memory.form) if counted else (show["vector"],):
        sizes: ShowRequest = {**show, "vector": vector if alone or in_memory.name.startswith("scale_") else None}
        number = None if not alone and in_memory.name in ("a", "d") else show["selector"]
        for selector in selectors(in_memory, sizes, number):
            try:
                placed = place_operand(in_memory, sizes, selector, (layers, show["name"]))
            except UsageError as error:
                if alone and selector in (None, 0, show["selector"]):
                    raise
                _print_unstated(in_memory, _selection(sizes["vector"], selector), str(error), as_json)
                continue
            picked = _selection(sizes["vector"], selector)
            if as_json:
                click.echo(json.dumps({**placed.to_json(), **picked}))
            else:
                _describe(placed, picked)


def _selection(vector: int | None, selector: int | None) -> dict[str, int]:
    """The number of scales and the selector, as far as there are any."""
    return {name: value for name, value in (("scales", vector), ("selector", selector)) if value is not None}


def _print_unstated(in_memory: MemoryOperand, picked: dict[str, int], words: str, as_json: bool) -> None:
    reason = words.removeprefix(f"{in_memory.id}: ")
    if as_json:
        click.echo(json.dumps({"id": in_memory.id, "instruction": in_memory.form.name, **picked, "why": reason}))
    else:
        click.echo(f"{in_memory.id}{''.join(f', {name} {value}' for name, value in picked.items())}: {reason}")


def _describe(placement: Placement, picked: dict[str, int]) -> None:
    facts = placement.to_json()
    sizes = f"M {placement.m}, N {placement.n}, " if placement.operand.form.multiplies else ""
    layout = f"layout {placement.letter}, " if placement.letter else ""
    picked_text = "".join(f", {name} {value}" for name, value in picked.items())
    copies = f", in {placement.copies} places" if placement.copies > 1 else ""
    line(
        f"{placement.operand.id}: {sizes}{facts['rows']} x {facts['cols']} in tensor memory, {layout}"
        f"{facts['bits']} bits each, {facts['columns']} columns{copies}{picked_text}"
    )
    for name, text in facts["formula"].items():
        line(f"  {name} = {text or 'no closed form'}")
    line(f"  {placement.evidence}")
    for other in placement.statements[1:]:
        line(f"  differs in {other.source}")
