"""`show` of operands in tensor memory: formulas, layout, and who states them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli.tensor_memory import placed_by, selectors
from tcprobe.cli.wrapping import line
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.ask.tensor_memory import MemoryOperand, Placement
    from tcprobe.cli.requests import ShowAsked
    from tcprobe.isa.instruction import Instruction
    from tcprobe.store.choose import Layers


def print_memory(asked_for: MemoryOperand | Instruction, show: ShowAsked, layers: Layers, as_json: bool) -> None:
    """`show` of an operand, or of all that a form has in tensor memory."""
    from tcprobe.ask.tensor_memory import SHIFTED, MemoryOperand, operands

    if isinstance(asked_for, MemoryOperand):
        _show(asked_for, show, layers, as_json)
        return
    if not as_json:
        click.echo(click.style(asked_for.name, bold=True))
    for operand in operands(asked_for):
        if operand.form.id == "tcgen05.shift.down":
            said = {"id": asked_for.id, "instruction": asked_for.name, "why": SHIFTED}
            click.echo(json.dumps(said) if as_json else SHIFTED)
        else:
            _show(operand, show, layers, as_json, alone=False)


def _show(in_memory: MemoryOperand, show: ShowAsked, layers: Layers, as_json: bool, alone: bool = True) -> None:
    """Every selector's and every count of scales; of a whole form what nobody states is said, no error."""
    from tcprobe.references import memory_operand

    counted = in_memory.name.startswith("scale_") and show["vector"] is None
    for vector in memory_operand.vectors(in_memory.form) if counted else (show["vector"],):
        sizes: ShowAsked = {**show, "vector": vector if alone or in_memory.name.startswith("scale_") else None}
        number = None if not alone and in_memory.name in ("a", "d") else show["selector"]
        for selector in selectors(in_memory, sizes, number):
            try:
                placed = placed_by(in_memory, sizes, selector, (layers, show["name"]))
            except UsageError as error:
                if alone and selector in (None, 0, show["selector"]):
                    raise
                _unstated(in_memory, _picked(sizes["vector"], selector), str(error), as_json)
                continue
            picked = _picked(sizes["vector"], selector)
            if as_json:
                click.echo(json.dumps({**placed.to_json(), **picked}))
            else:
                _describe(placed, picked)


def _picked(vector: int | None, selector: int | None) -> dict[str, int]:
    """What of scales and selectors is meant, where there are any."""
    return {name: value for name, value in (("scales", vector), ("selector", selector)) if value is not None}


def _unstated(in_memory: MemoryOperand, picked: dict[str, int], words: str, as_json: bool) -> None:
    said = words.removeprefix(f"{in_memory.id}: ")
    if as_json:
        click.echo(json.dumps({"id": in_memory.id, "instruction": in_memory.form.name, **picked, "why": said}))
    else:
        click.echo(f"{in_memory.id}{''.join(f', {name} {value}' for name, value in picked.items())}: {said}")


def _describe(held_there: Placement, picked: dict[str, int]) -> None:
    facts = held_there.to_json()
    sizes = f"M {held_there.m}, N {held_there.n}, " if held_there.operand.form.multiplies else ""
    layout = f"layout {held_there.letter}, " if held_there.letter else ""
    chosen = "".join(f", {name} {value}" for name, value in picked.items())
    copies = f", in {held_there.copies} places" if held_there.copies > 1 else ""
    line(
        f"{held_there.operand.id}: {sizes}{facts['rows']} x {facts['cols']} in tensor memory, {layout}"
        f"{facts['bits']} bits each, {facts['columns']} columns{copies}{chosen}"
    )
    for name, text in facts["formula"].items():
        line(f"  {name} = {text or 'no closed form'}")
    line(f"  {held_there.evidence}")
    for other in held_there.statements[1:]:
        line(f"  differs in {other.source}")
