"""`where` of operands in tensor memory: cells of an element, and the register that a load leaves D in."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question.options import Command, Given, Number, Numbers, several, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tcprobe.ask.tensor_memory import MemoryOperand, Placement
    from tcprobe.ask.trace import Holder
    from tcprobe.cli.requests import MemoryRequest, WhereRequest
    from tcprobe.isa.fragment import Fragment
    from tcprobe.isa.instruction import Instruction
    from tcprobe.store.choose import Layers
    from tcprobe.values import Json

SIZES = (
    click.option("--m", type=Number(), help="With tcgen05.mma: M. Default: 128, or the largest."),
    click.option("--n", type=Number(), help="With tcgen05.mma: N. Default: 256, or the largest."),
    click.option(
        "--scale-vec", "vector", type=Number(), metavar="N", help="Scales of a row in tensor memory: 1 for 1X, 2, 4."
    ),
    click.option(
        "--multicast", type=Given(), help="With tcgen05.cp: warpx2::02_13, warpx2::01_23. Default: the first."
    ),
)
LOAD = click.option("--ld", type=Given(), metavar="SHAPE.xN", help="The tcgen05.ld that reads D, such as 32x32b.x32.")
CELLS = (
    click.option("--cta", type=Number(), help="In tensor memory: which CTA of the pair. Default: 0."),
    click.option(
        "--column", "columns", type=Numbers(), help="In tensor memory, with --lane: say what this cell holds."
    ),
    click.option("--bit", type=Number(), help="With --column: which of the cell's 32 bits. Default: 0."),
    LOAD,
    click.option(
        "--warp", type=Number(), help="With tcgen05.ld and .st: the warp, which decides which lanes it reaches."
    ),
)
ONLY = ("m", "n", "vector", "multicast", "cta", "columns", "bit", "ld", "a_major", "b_major")
ELSEWHERE = ("elements", "byte", "swizzle", "major", "lbo", "sbo", "base_offset", "start", "warp")


def sizes(command: Command) -> Command:
    """The options that say which operand is meant."""
    return together(SIZES, command)


def options(command: Command) -> Command:
    """The options that say which operand, which cell, and how it is read."""
    return together((*SIZES, *CELLS), command)


def require_none(params: Mapping[str, object]) -> None:
    """UsageError for an option that goes with tensor memory alone."""
    if wrong := [name for name in ONLY if params.get(name) is not None]:
        option = {"vector": "scale-vec", "columns": "column"}.get(wrong[0], wrong[0].replace("_", "-"))
        raise UsageError(f"--{option} needs an operand in tensor memory, such as tcgen05.mma.cta_group::1.kind::f16.d.")


def find_operand(name: str) -> MemoryOperand | None:
    """The operand in tensor memory that a name means; None where it means something else."""
    if "tcgen05" not in name.lower():
        return None
    from tcprobe.ask.tensor_memory import operand

    return operand(name)


def form(name: str) -> Instruction | None:
    """The tcgen05 instruction that a name means and that holds nothing in registers; None where it means no such."""
    if "tcgen05" not in name.lower():
        return None
    from tcprobe.isa import inventory
    from tcprobe.isa.names.search import short

    row = inventory.instructions().get(short(name))
    return row if row and not row.fragments else None


def check_arch(instruction: Instruction, name: str | None) -> None:
    """UsageError for an arch that does not have the instruction."""
    from tcprobe.isa import arch

    for arch_name in several(name):
        if arch_name not in (None, "all") and not instruction.target.on(arch.arch(str(arch_name))):
            raise UsageError(f"{arch_name} does not have {instruction.id}: `tcprobe why-not` says why.")


def locate(in_memory: MemoryOperand, where: WhereRequest, known_by: tuple[Layers, str | None], as_json: bool) -> None:
    """Answers for every element, or cell, that is asked about, one after the other."""
    if where["ld"] and in_memory.name != "d":
        raise UsageError("--ld needs D: tcgen05.ld reads words, and a word of another operand holds several elements.")
    options: Mapping[str, object] = where
    if wrong := [name for name in ELSEWHERE if options[name] is not None]:
        raise UsageError(
            f"{in_memory.id} is in tensor memory: give --row and --col, or --lane and --column; "
            f"--{wrong[0]} does not apply to it."
        )
    for selector in selectors(in_memory, where, where["selector"]):
        placed = place_operand(in_memory, where, selector, known_by)
        for answer in _answers(placed, where):
            picked = answer | ({} if selector is None else {"selector": selector})
            if as_json:
                click.echo(json.dumps(picked))
            else:
                _print(placed, picked)


def selectors(in_memory: MemoryOperand, sizes: MemoryRequest, number: int | None) -> list[int | None]:
    """The selector `number` that the user gives, else every one there is; [None] for what no selector changes."""
    from tcprobe.references import memory_operand

    if not in_memory.form.multiplies or in_memory.name in ("a", "d"):
        if number is not None:
            raise UsageError(f"{in_memory.id} has no selector: remove --selector.")
        return [None]
    if number is not None:
        return [number]
    return list(memory_operand.selectors(in_memory.form, in_memory.name, vector_of(in_memory, sizes)))


def vector_of(in_memory: MemoryOperand, sizes: MemoryRequest) -> int:
    """How many scales a row has; UsageError where neither the form nor the user says it."""
    from tcprobe.references import memory_operand

    if not in_memory.name.startswith("scale_"):
        if sizes["vector"] is not None:
            raise UsageError(f"--scale-vec applies to scale_a and scale_b, not to {in_memory.id}.")
        return 0
    vectors = memory_operand.vectors(in_memory.form)
    vector, said = sizes["vector"], in_memory.vector
    if vector is None:
        vector = vectors[0] if said is None and len(vectors) == 1 else said
    elif said not in (None, vector):
        raise UsageError(f"the name says {said} scales per row, and --scale-vec {vector}: remove one of them.")
    if vector not in vectors:
        counts = " or ".join(map(str, vectors))
        raise UsageError(f"{in_memory.id} has {counts} scales per row: give --scale-vec {vectors[-1]}.")
    return vector


def place_operand(
    in_memory: MemoryOperand, sizes: MemoryRequest, selector: int | None, known_by: tuple[Layers, str | None]
) -> Placement:
    """Where an operand lies for the sizes that the options give; what was measured on the named arch comes first."""
    from tcprobe.ask.tensor_memory import OperandVariant, placement

    form = in_memory.form
    if form.multiplies and sizes["multicast"] is not None:
        raise UsageError(f"{form.id} has no multicast; tcgen05.cp has.")
    if not form.multiplies and (sizes["m"], sizes["n"]) != (None, None):
        raise UsageError(f"{form.id} has no M and N; tcgen05.mma has.")
    vector = vector_of(in_memory, sizes)
    return placement(
        in_memory, OperandVariant(sizes["m"], sizes["n"], selector or 0, vector, sizes["multicast"], *known_by)
    )


def _answers(placement: Placement, where: WhereRequest) -> Iterator[Json]:
    elements = _pairs(where["rows"], where["cols"])
    cells = _pairs(where["lanes"], where["columns"])
    if (elements is None) == (cells is None):
        raise UsageError(f"{placement.operand.id} is in tensor memory: give --row and --col, or --lane and --column.")
    if cells is not None and where["ld"]:
        raise UsageError("--ld needs --row and --col; `where tcgen05.ld...` says what a register holds.")
    if cells is None and (where["cta"], where["bit"]) != (None, None):
        raise UsageError("--cta and --bit say which cell, so they need --lane and --column.")
    for row, col in elements or ():
        yield _of_element(placement, row, col, where["ld"])
    cta, bit = where["cta"] or 0, where["bit"] or 0
    if cells:
        _check_bounds(placement, cta, bit, cells)
    for lane, column in cells or ():
        element = placement.at(cta, lane, column, bit)
        bits = placement.statement.bits
        yield {
            **_head(placement),
            "row": element and element[0],
            "col": element and element[1],
            "tmem": {"cta": cta, "lane": lane, "column": column},
            "bit": bit - bit % bits,
            "bits": bits,
            **_tail(placement),
        }


def _pairs(firsts: list[int] | None, seconds: list[int] | None) -> list[tuple[int, int]] | None:
    """All pairs of a first and a second; None unless both lists are given."""
    return None if firsts is None or seconds is None else list(product(firsts, seconds))


def _check_bounds(placement: Placement, cta: int, bit: int, lane_columns: Sequence[tuple[int, int]]) -> None:
    from tcprobe.isa.rows.tcgen05 import COLUMNS, LANES

    pairs = (
        ("cta", [cta], 1 + ("cta_group::2" in placement.operand.form.id)),
        ("bit", [bit], 32),
        ("lane", [lane for lane, _ in lane_columns], LANES),
        ("column", [column for _, column in lane_columns], COLUMNS),
    )
    for name, values, most in pairs:
        if wrong := [value for value in values if value >= most]:
            raise UsageError(f"{placement.operand.id} has no {name} {wrong[0]}: 0 to {most - 1}.")


def _of_element(placement: Placement, row: int, col: int, load: str | None) -> Json:
    from tcprobe.references import accumulator

    first, *others = placement.places(row, col)
    tmem = {"cta": first.cta, "lane": first.lane, "column": first.column}
    place = {"row": row, "col": col, "tmem": tmem, "bit": first.bit, "bits": placement.statement.bits}
    answer = {**_head(placement), **place}
    if others:
        answer["copies"] = [other._asdict() for other in others]
    if load:
        landing = accumulator.Landing(first.cta, first.lane, first.column)
        answer |= accumulator.slot_of_load(landing, *parse_load(load))._asdict()
    return answer | _tail(placement, (row, col))


def _head(placement: Placement) -> Json:
    return {"id": placement.operand.id, "m": placement.m, "n": placement.n, "layout": placement.letter}


def _tail(placement: Placement, element: tuple[int, int] | None = None) -> Json:
    """What a placement rests on, and the sources that put the element elsewhere."""
    differs = [
        {"source": other.source, "tmem": [place._asdict() for place in other.holding(*element)]}
        for other in placement.statements[1:]
        if element and other.holding(*element) != placement.places(*element)
    ]
    others = {"differs": differs} if differs else {}
    return {"status": placement.status, "source": placement.statement.source, **placement.agreement, **others}


def _print(placement: Placement, described: Json) -> None:
    cells = [{**described["tmem"], "bit": described["bit"]}, *described.get("copies", ())]
    name = placement.operand.name.upper()
    element = "nothing" if described["row"] is None else f"{name}[{described['row']}][{described['col']}]"
    layout = f"layout {placement.letter}, " if placement.letter else ""
    picked = f", selector {described['selector']}" if "selector" in described else ""
    click.echo(f"{element}: tensor memory {'; '.join(map(_cell, cells))} ({layout}{_how(placement)}{picked})")
    if "register" in described:
        read = ", ".join(
            f"{name} {described[name]}" for name in ("warp", "lane", "register", "column_base", "lane_base")
        )
        click.echo(f"  loaded: {read}")
    for other in described.get("differs", ()):
        click.echo(f"  differs in {other['source']}: {'; '.join(map(_cell, other['tmem']))}")


def _how(placement: Placement) -> str:
    """The status, and where it was measured."""
    return f"measured on {placement.measured_places.arch}" if placement.measured_places else "documented"


def _cell(coordinates: dict[str, int]) -> str:
    bit = f", bit {coordinates['bit']}" if coordinates["bit"] else ""
    return f"cta {coordinates['cta']}, lane {coordinates['lane']}, column {coordinates['column']}{bit}"


def check_warp(family: str, warp: int | None) -> None:
    """UsageError for a warp of anything but a load or store of tensor memory."""
    if warp is not None and family != "tcgen05":
        raise UsageError("--warp applies to tcgen05.ld and .st, where each warp reaches its own lanes.")


def reaches(fragment: Fragment, holders: Sequence[Holder], warp: int | None) -> list[Json]:
    """The cell of each slot of a load or store of tensor memory: relative to the address, or with the lanes of a warp.

    UsageError for a warp of anything else, and for one that a warpgroup does not have.
    """
    from tcprobe.isa.arch import WARP, WARPGROUP

    check_warp(fragment.family, warp)
    if fragment.family != "tcgen05":
        return [{} for _ in holders]
    if (warp or 0) >= WARPGROUP // WARP:
        raise UsageError(f"a warpgroup has no warp {warp}: 0 to {WARPGROUP // WARP - 1}.")
    return [{"tmem": {"lane": WARP * (warp or 0) + holder.row, "column": holder.col}} for holder in holders]


def print_reached(holders: Sequence[Holder], reached_cells: Sequence[Json], warp: int | None) -> None:
    """Print the cell of tensor memory that each slot of a load or store reaches."""
    for holder, cell in zip(holders, reached_cells, strict=True):
        if cell:
            whose = "relative to the address" if warp is None else f"of warp {warp}"
            place = cell["tmem"]
            click.echo(f"{holder}: tensor memory lane {place['lane']}, column {place['column']} {whose}")


def parse_load(words: str) -> tuple[str, int]:
    """The shape and repetitions of a tcgen05.ld; UsageError where there is no such load."""
    from tcprobe.isa import inventory

    read = re.fullmatch(r"(\w{1,9})\.x([0-9]{1,3})", words)
    row = read and inventory.instructions().get(f"tcgen05.ld.{read[1]}")
    if not (read and row and int(read[2]) in row.stated["num"]):
        raise UsageError(f"--ld {words[:40]!r}: expected SHAPE.xN of tcgen05.ld, such as 32x32b.x32.")
    return read[1], int(read[2])
