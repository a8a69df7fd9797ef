"""Operands of wgmma in shared memory, behind descriptors: what `show`, `where` and `trace` take and say of them."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Final

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import Command, Number, SwizzleType, several, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tcprobe.ask.behind import Behind
    from tcprobe.ask.trace_shared import SharedTrace
    from tcprobe.cli.requests import DescriptorRequest, TraceRequest, WhereRequest
    from tcprobe.isa.instruction import Instruction, SharedOperand
    from tcprobe.isa.names import Meaning
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers

MAJOR = click.Choice(["k", "mn"])
OPTIONS = (
    click.option(
        "--swizzle",
        type=SwizzleType(),
        help="Swizzle of an operand in shared memory: none, 32, 64, 128 (SWIZZLE_128B, sw:3,4,3).",
    ),
    click.option("--major", type=MAJOR, help="What is contiguous: k, or m and n."),
    click.option(
        "--lbo", type=Number(), metavar="BYTES", help="Leading byte offset. Default: that of a tile without gaps."
    ),
    click.option(
        "--sbo", type=Number(), metavar="BYTES", help="Stride byte offset. Default: that of a tile without gaps."
    ),
    click.option("--base-offset", "base_offset", type=Number(), metavar="N", help="Base offset, 0 to 7."),
    click.option("--start", type=Number(), metavar="BYTES", help="Start address, modulo 1,024."),
)
NUMBERS: Final = ("lbo", "sbo", "base_offset", "start")
NAMES = ("swizzle", "major", *NUMBERS)


def fields(command: Command) -> Command:
    """The options that say what a descriptor says."""
    return together(OPTIONS, command)


def behind(operand: SharedOperand, layers: Layers, fields: DescriptorRequest) -> Behind:
    """The operand behind the descriptor that the options say."""
    from tcprobe.ask.behind import behind as lying_behind

    span = fields["swizzle"].span if fields["swizzle"] else 0
    numbers = {name: fields[name] for name in NUMBERS}
    given = {name: number for name, number in numbers.items() if number is not None}
    return lying_behind(operand, layers, fields["major"] or "k", span, **given)


def in_shared_memory(name: str) -> Meaning | None:
    """What a name means that says an operand in shared memory."""
    from tcprobe.isa.names import resolve

    meaning = resolve(name)
    return meaning if meaning.says_shared else None


def behind_operand(meaning: Meaning, layers: Layers, fields: DescriptorRequest) -> Behind:
    """The operand that a name means, behind the descriptor that the options say; its major may be in the name."""
    one = meaning.shared_operand
    return behind(one, layers, {**fields, "major": fields["major"] or meaning.major(one)})


def check_asked(operand: SharedOperand, name: str | None, selector: int | None) -> None:
    """UsageError for an arch that has no such operand, and for a selector, which is for metadata."""
    from tcprobe.ask.behind import ARCH
    from tcprobe.isa import arch

    if selector is not None:
        raise UsageError(f"{operand.id} has no selector; only operand e of a sparse form has one.")
    for at in several(name):
        if at not in (None, "all") and arch.arch(str(at)).name != ARCH:
            raise UsageError(f"{operand.id} exists on {ARCH} only: `tcprobe why-not` says why {at} does not have it.")


def beyond(params: Mapping[str, object], *others: str) -> list[str]:
    """The options given, of `others` and of descriptors, that only an operand in shared memory has."""
    return [f"--{name.replace('_', '-')}" for name in (*others, *NAMES) if params[name] is not None]


def check_registers(instruction: Instruction, trace: TraceRequest) -> None:
    """UsageError where `trace` of a multiply of registers is asked about shared memory."""
    smem = [f"--operand {trace['operand']}"] if trace["operand"] in ("a_smem", "b_smem") else []
    if wrong := smem + beyond(trace, "byte", "a_in"):
        raise UsageError(f"{instruction.id} has no operand in shared memory (wgmma has): remove {', '.join(wrong)}.")


def _check_traced(instruction: Instruction, trace: TraceRequest) -> None:
    """UsageError for options of `trace` that say nothing of a multiply with factors behind descriptors."""
    for name, number in (("product", trace["product"]), ("selector", trace["selector"])):
        if number is not None and (name == "product" or instruction.metadata is None):
            raise UsageError(f"--{name} does not apply to {instruction.id}: remove it.")
    if instruction.metadata and trace["selector"] not in (None, *instruction.metadata.selectors):
        known = ", ".join(map(str, instruction.metadata.selectors))
        raise UsageError(f"{instruction.metadata.id} has no selector {trace['selector']}: it has {known}.")
    if trace["operand"] == "a_smem" and trace["a_in"] == "registers":
        raise UsageError("a_smem is A in shared memory: remove --a-in, or give --a-in shared.")
    if trace["a_in"] == "tensor":
        raise UsageError(
            f"{instruction.id} has A in registers or in shared memory; tcgen05.mma has it in tensor memory."
        )


def traces(instruction: Instruction, operands: Mapping[str, Cell], trace: TraceRequest) -> Iterator[SharedTrace]:
    """What `trace` answers of a multiply with factors behind descriptors, one answer after the other.

    UsageError unless just an element of D, a byte, or a slot of A is asked about.
    """
    from tcprobe.ask.trace_shared import SharedMultiply, fed_by_byte, fed_by_slot
    from tcprobe.ask.trace_shared import trace_element as fed

    _check_traced(instruction, trace)
    a, b = (behind(one, operands["d"].layers, trace) for one in instruction.described)
    in_shared = trace["a_in"] == "shared" or trace["operand"] == "a_smem"
    memory = SharedMultiply(instruction, operands, b, a if in_shared else None)
    match trace["row"], trace["col"], trace["operand"], trace["lane"], trace["element"], trace["byte"]:
        case list(rows), list(cols), None, None, None, None:
            yield from (fed(memory, *at) for at in product(rows, cols))
        case None, None, ("a_smem" | "b_smem") as operand, None, None, list(bytes_):
            yield from (fed_by_byte(memory, operand, byte) for byte in bytes_)
        case None, None, "a", list(lanes), list(slots), None if trace["a_in"] != "shared":
            yield from (fed_by_slot(memory, *at) for at in product(lanes, slots))
        case _:
            raise UsageError(
                "give --row and --col, or --operand a with --lane and --i, or --operand a_smem or b_smem with --byte."
            )


def meetings(answer: SharedTrace) -> None:
    """What meets, and what that rests on."""
    from tcprobe.ask.confidence import line

    memory = answer.memory
    held = f", held by {answer.d[0]}" if answer.d else ""
    wrapping.line(f"{answer.about} in {memory.instruction.id}{held}", answer.about, bold=True)
    for m in answer.meetings:
        a = f"at byte {m.a_offset}" if memory.a else str(m.a[0])
        b = ", ".join(f"B[{k}][{m.col}] at byte {at}" for k, at in zip(m.k, m.b_offsets, strict=True))
        to = "" if answer.d else f"  ->  D[{m.row}][{m.col}] {m.d[0]}"
        click.echo(f"  A[{m.row}][{m.stored}] {a}  x  {b}{to}")
    wrapping.line(f"{'D' if memory.a else 'A and D'}: {memory.tables['d'].evidence}")
    for name, one in (("A", memory.a), ("B", memory.b)):
        if one:
            wrapping.line(f"{name} behind {one.descriptor.encode():#018x}: {one.evidence}")
    click.echo(line(memory.confidence))


def print_places(behind: Behind, where: WhereRequest, as_json: bool) -> None:
    """`where` of an operand behind a descriptor: the bytes of elements, or the elements at bytes."""
    from tcprobe.ask.behind import ARCH
    from tcprobe.ask.confidence import line

    one = behind.operand
    rows, cols, byte = where["rows"], where["cols"], where["byte"]
    by_slot = where["lanes"] is not None or where["elements"] is not None
    if by_slot or (byte is None) == (rows is None and cols is None):
        raise UsageError(f"{one.id} is in shared memory: give --row and --col, or --byte.")
    if byte is not None:
        lying = [element for at in byte for element in behind.at(at)]
    else:
        held = one.held
        lying = behind.lying(range(held.rows) if rows is None else rows, range(held.cols) if cols is None else cols)
    if as_json:
        said = [dict(zip(("row", "col", "offset", "bytes", "bit"), element, strict=False)) for element in lying]
        click.echo(
            json.dumps(
                {
                    "id": one.id,
                    "arch": ARCH,
                    "source": behind.source,
                    "evidence": behind.evidence,
                    "confidence": behind.confidence.to_json(),
                    "descriptor": f"{behind.descriptor.encode():#018x}",
                    "major": behind.major,
                    "elements": said,
                }
            )
        )
        return
    for element in lying:
        click.echo(f"{one.held.name[0].upper()}{element} from the start address")
    wrapping.line(f"behind {behind.descriptor.encode():#018x}: {behind.evidence}")
    click.echo(line(behind.confidence))


def print_behind(behind: Behind, as_json: bool) -> None:
    """`show` of an operand behind a descriptor."""
    if as_json:
        click.echo(json.dumps(behind.to_json()))
    else:
        _print(behind)


def _print(behind: Behind) -> None:
    one, held, descriptor = behind.operand, behind.operand.held, behind.descriptor
    click.echo(f"{wrapping.bold(one.id)} on sm_90")
    swizzle = f"swizzle {descriptor.swizzle}" if descriptor.swizzle else "no swizzle"
    size = f"{held.rows} x {held.cols} of {held.type}"
    wrapping.line(f"operand {held.name}, {size} in shared memory, {behind.major} contiguous, {swizzle}")
    wrapping.line(
        f"  descriptor {descriptor.encode():#018x}: LBO {descriptor.lbo}, SBO {descriptor.sbo}, "
        f"base offset {descriptor.base_offset}, start {descriptor.start}"
    )
    wrapping.line(f"  offset = {behind.formula}")
    click.echo("")
    click.echo("byte from the start address of element (row, col)")
    lines = behind.offsets[:16]
    step = max(1, 8 // held.slot_bits)
    for row, offsets in enumerate(lines):
        click.echo(f"{row:4}  " + " ".join(f"{offset:5}" for offset in offsets[: 12 * step : step]))
    if held.rows > len(lines) or held.cols > 12 * step:
        every = f"; every {step}th column" if step > 1 else ""
        wrapping.line(f"of {held.rows} x {held.cols}; --json has them all{every}")
    wrapping.line(behind.evidence)
