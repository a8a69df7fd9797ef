"""`tcprobe scales`: scale factors from the host's layout into registers or tensor memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.errors import AmbiguousError, UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCH, JSON, NAME, Given, Number, Numbers, fragment_names, print_notes, read_results

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.scales import CopiedScales, LoadedScales
    from tcprobe.cli.requests import MemoryRequest, ScalesRequest
    from tcprobe.store.choose import Layers
    from tcprobe.values import Json

MOST_ANSWERS = 1 << 14  # of one call, which take seconds


@click.command(short_help="Scale factors: from the host's layout to registers or tensor memory.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option("--line", "lines", type=Numbers(), help="Row of A, or column of B, or a range: where its scales are.")
@click.option("--block", "scaled", type=Numbers(), help="With --line: which block of k, or a range. Default: all.")
@click.option("--blocks", type=Number(1), help="Blocks in a line of the whole matrix. Default: 4.")
@click.option("--m", type=Number(), help="With tcgen05.mma: M. Default: 128, or the largest.")
@click.option("--n", type=Number(), help="With tcgen05.mma: N. Default: 256, or the largest.")
@click.option(
    "--scale-vec", "vector", type=Number(), metavar="N", help="Scales of a row in tensor memory: 1 for 1X, 2, 4."
)
@click.option("--multicast", type=Given(), help="With tcgen05.cp: warpx2::02_13, warpx2::01_23. Default: the first.")
@NAME
@ARCH
@read_results
@JSON
@named("fragment", "one", "one")
def scales(fragment: str, name: str | None, layers: Layers, as_json: bool, **request: Unpack[ScalesRequest]) -> None:
    """Say where the scales of FRAGMENT, a scale_a or scale_b, are in the host's layout (CUTLASS's SfAtom), and print
    the code.

    For mma the code loads a lane's register, from which byte-id selects what a multiply needs. For tcgen05.mma (--m,
    --n, --scale-vec) it copies atoms from shared into tensor memory. --line and --block locate single scales.
    """

    from tcprobe.ask.scales import scale_json
    from tcprobe.code.names import FUNCTION, require_legal

    if request["lines"] is None and (request["scaled"], request["blocks"]) != (None, None):
        raise UsageError("--block and --blocks need --line; the code takes every block.")
    if request["lines"] is not None and request["called"] and not as_json:
        raise UsageError("--name is for the code, which --line leaves out: remove one of them, or give --json.")
    layout = _scale_layout(fragment, name, layers, request)
    blocks = request["blocks"] or 4
    lines = request["lines"] or []
    scaled_blocks = request["scaled"] if request["scaled"] is not None else range(blocks)
    if len(lines) * len(scaled_blocks) > MOST_ANSWERS:
        raise UsageError(
            f"{len(lines)} lines of {len(scaled_blocks)} blocks: at most {MOST_ANSWERS} scales are located at once; "
            "take fewer lines, or some of the blocks by --block."
        )
    answers = [scale_json(layout, line, block, blocks) for line in lines for block in scaled_blocks]
    code = layout.code(require_legal(request["called"] or "scales", FUNCTION))
    if as_json:
        id_ = layout.operand.id if hasattr(layout, "operand") else layout.cell.fragment.id
        plain = {"id": id_, "vector": layout.vector, "evidence": layout.evidence, "scales": answers, "code": code}
        click.echo(json.dumps(plain))
        return
    for scale in answers:
        _say(scale)
    if answers:
        wrapping.line(layout.evidence)
    if not answers:
        click.echo(code, nl=False)


def _scale_layout(fragment: str, name: str | None, layers: Layers, sizes: MemoryRequest) -> LoadedScales | CopiedScales:

    from tcprobe.ask.scales import scales_in_registers, scales_in_tensor_memory
    from tcprobe.ask.tensor_memory import OperandVariant, check_arch, operand, vector_of
    from tcprobe.store import names

    _check_named(fragment)
    placed = operand(fragment) if "tcgen05" in fragment.lower() else None
    if placed:
        check_arch(placed.form, name)
        vector = vector_of(placed, sizes["vector"])
        return scales_in_tensor_memory(
            placed, OperandVariant(sizes["m"], sizes["n"], 0, vector, layers=layers, name=name)
        )
    for option in ("m", "n", "vector", "multicast"):
        if sizes[option] is not None:
            raise UsageError(
                f"`{option}` needs an operand in tensor memory, such as tcgen05.mma.cta_group::1.kind::f16.d."
            )
    whole, note = names.find_cell(fragment, name, layers)
    print_notes(note)
    return scales_in_registers(whole)


def _check_named(name: str) -> None:
    """AmbiguousError where a name means a multiply with scales, but none of its operands."""
    from tcprobe.isa.names import resolve
    from tcprobe.isa.names.words import read
    from tcprobe.text import quoted

    if read(name).operand:
        return
    ids = [row.id for row in resolve(name).instructions if any(operand.name == "scale_a" for operand in row.operands)]
    size = next((part for part in read(name).plain if part.startswith("scale_vec::")), "").replace("x", "X")
    more = {id_: f" {size} " if size and size not in id_ else "." for id_ in ids}  # tcgen05's ids do not have it
    choices = [f"{id_}{more[id_]}{operand}" for id_ in ids for operand in ("scale_a", "scale_b")]
    if choices:
        raise AmbiguousError(f"{quoted(name)} names no operand: scale_a or scale_b.", name, choices[:6])


def _say(located: Json) -> None:
    cells = [f"lane {cell['lane']}, column {cell['column']}, bit {cell['bit']}" for cell in located.get("tmem", ())]
    if cells:
        where = f"tensor memory {'; '.join(cells)}"
    else:
        where = f"lanes {', '.join(map(str, located['lanes']))}, bits {located['bit']}..{located['bit'] + 7}"
    read = f"multiply {located['multiply']}, ID {located['byte_id']}, its scale {located['scale']}"
    click.echo(f"line {located['line']}, block {located['block']}: byte {located['offset']}; {where}; {read}")


COMMANDS = (scales,)
