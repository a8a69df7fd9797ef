"""The descriptors of wgmma: `tcprobe descriptor`, and what `show` says of operands behind them."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tcprobe.cli import tcgen05_descriptor as tcgen05
from tcprobe.cli import wrapping
from tcprobe.cli.answers import bold
from tcprobe.cli.options import JSON, Given, Number, several
from tcprobe.cli.places import ElementType, Sides, SwizzleType
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tcprobe.ask.behind import Behind
    from tcprobe.ask.descriptor import SharedTile
    from tcprobe.ask.trace_shared import SharedTrace
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
NAMES = ("swizzle", "major", "lbo", "sbo", "base_offset", "start")


def fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what a descriptor says."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def behind(operand: SharedOperand, layers: Layers, params: dict[str, Any]) -> Behind:
    """The operand behind the descriptor that the options say."""
    from tcprobe.ask.behind import behind as lying_behind

    span = params["swizzle"].span if params["swizzle"] else 0
    given = {name: params[name] for name in ("lbo", "sbo", "base_offset", "start") if params[name] is not None}
    return lying_behind(operand, layers, params["major"] or "k", span, **given)


def in_shared_memory(name: str) -> Meaning | None:
    """What a name means that says an operand in shared memory."""
    from tcprobe.isa.names import resolve, words

    smem = any(word.endswith("_smem") for word in words.read(name).plain)
    return resolve(name) if smem else None


def meant(meaning: Meaning, layers: Layers, params: dict[str, Any]) -> Behind:
    """The operand that a name means, behind the descriptor that the options say; its major may be in the name."""
    one = meaning.shared_operand
    return behind(one, layers, {**params, "major": params["major"] or meaning.major(one)})


def check_asked(operand: SharedOperand, name: str | None, selector: int | None) -> None:
    """UsageError for an arch that has no such operand, and for a selector, which is for metadata."""
    from tcprobe.ask.behind import ARCH
    from tcprobe.isa import arch

    if selector is not None:
        raise UsageError(f"{operand.id} has no selector; operand e of a sparse form has.")
    for at in several(name):
        if at not in (None, "all") and arch.arch(str(at)).name != ARCH:
            raise UsageError(f"{operand.id} is of {ARCH} alone: `tcprobe why-not` says why {at} does not have it.")


def beyond(params: dict[str, Any], *others: str) -> list[str]:
    """The options given, of `others` and of descriptors, that only an operand in shared memory has."""
    return [f"--{name.replace('_', '-')}" for name in (*others, *NAMES) if params[name] is not None]


def check_registers(instruction: Instruction, params: dict[str, Any]) -> None:
    """UsageError where `trace` of a multiply of registers is asked about shared memory."""
    smem = [f"--operand {params['operand']}"] if params["operand"] in ("a_smem", "b_smem") else []
    if wrong := smem + beyond(params, "byte", "a_in"):
        raise UsageError(
            f"{instruction.id} has no operand in shared memory, as wgmma has: leave {', '.join(wrong)} out."
        )


def _check_traced(instruction: Instruction, params: dict[str, Any]) -> None:
    """UsageError for options of `trace` that say nothing of a multiply with factors behind descriptors."""
    for name in ("product", "selector"):
        if params[name] is not None and (name == "product" or instruction.metadata is None):
            raise UsageError(f"no {name} changes what meets in {instruction.id}: leave --{name} out.")
    if instruction.metadata and params["selector"] not in (None, *instruction.metadata.selectors):
        known = ", ".join(map(str, instruction.metadata.selectors))
        raise UsageError(f"{instruction.metadata.id} has no selector {params['selector']}: it has {known}.")
    if params["operand"] == "a_smem" and params["a_in"] == "registers":
        raise UsageError("a_smem is A in shared memory: leave --a-in out, or say --a-in shared.")


def traced(instruction: Instruction, tables: Mapping[str, Cell], params: dict[str, Any]) -> Iterator[SharedTrace]:
    """What `trace` answers of a multiply with factors behind descriptors, one answer after the other."""
    from tcprobe.ask.trace_shared import SharedMultiply, fed_by_byte, fed_by_slot
    from tcprobe.ask.trace_shared import traced as fed

    _check_traced(instruction, params)
    a, b = (behind(one, tables["d"].layers, params) for one in instruction.described)
    in_shared = params["a_in"] == "shared" or params["operand"] == "a_smem"
    memory, way = SharedMultiply(instruction, tables, b, a if in_shared else None), _way(params)
    if way == "element":
        yield from (fed(memory, *at) for at in product(params["row"], params["col"]))
    elif way == "byte":
        yield from (fed_by_byte(memory, params["operand"], byte) for byte in params["byte"])
    else:
        yield from (fed_by_slot(memory, *at) for at in product(params["lane"], params["element"]))


def _way(params: dict[str, Any]) -> str:
    """What is asked about: an element of D, a byte, or a slot of A; UsageError unless it is just one."""
    given = {name for name in ("row", "col", "operand", "lane", "element", "byte") if params[name] is not None}
    if given == {"row", "col"}:
        return "element"
    if given == {"operand", "byte"} and params["operand"] in ("a_smem", "b_smem"):
        return "byte"
    if given == {"operand", "lane", "element"} and params["operand"] == "a" and params["a_in"] != "shared":
        return "slot"
    raise UsageError(
        "give --row and --col, or --operand a with --lane and --i, or --operand a_smem or b_smem with --byte."
    )


def meetings(answer: SharedTrace) -> None:
    """What meets, and what that rests on."""
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


def located(behind: Behind, params: dict[str, Any], as_json: bool) -> None:
    """`where` of an operand behind a descriptor: the bytes of elements, or the elements at bytes."""
    from tcprobe.ask.behind import ARCH

    one = behind.operand
    rows, cols, byte = (params[name] for name in ("rows", "cols", "byte"))
    if (
        (byte is None) == (rows is None and cols is None)
        or params["lanes"] is not None
        or params["elements"] is not None
    ):
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


def shown(behind: Behind, as_json: bool) -> None:
    """`show` of an operand behind a descriptor."""
    if as_json:
        click.echo(json.dumps(behind.to_json()))
    else:
        _print(behind)


def _print(behind: Behind) -> None:
    one, held, descriptor = behind.operand, behind.operand.held, behind.descriptor
    click.echo(f"{bold(one.id)} on sm_90")
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


@click.command(short_help="Descriptors of wgmma and tcgen05, and back.")
@click.argument("value", required=False, metavar="[0xVALUE]")
@click.option(
    "--tile", "size", type=Sides(2, "LINESxK"), help="Lines (m of A, n of B) x k of a tile in shared memory: 128x64."
)
@click.option("--type", "kind", type=ElementType(), metavar="TYPE", help="f16, bf16, tf32, e4m3, e5m2, s8, u8 or b1.")
@click.option(
    "--instruction",
    type=Given(),
    metavar="NAME",
    help="A wgmma, or its operand a_smem or b_smem: its type and its lines.",
)
@click.option("--major", type=MAJOR, default="k", show_default=True, help="What is contiguous: k, or m and n.")
@click.option(
    "--swizzle",
    type=SwizzleType(),
    default="128",
    show_default=True,
    help="Bytes of a row of the pattern: none, 32, 64, 128.",
)
@tcgen05.options
@JSON
def descriptor(value: str | None, as_json: bool, **asked: Any) -> None:
    """Show the descriptor of a tile: the 64 bits with the reasons, the steps along k and along lines, and code for
    CUDA, CuTe and TMA.

    A value of 64 bits is decoded instead, for wgmma or, by its version bits, for tcgen05. --idesc does the same for the
    32-bit instruction descriptor of tcgen05.mma, both ways.
    """
    from tcprobe.ask import descriptor as ask

    if asked["idesc"]:
        if asked["tcgen05"] or asked["size"]:
            raise UsageError("--idesc is of an instruction: leave --tile and --tcgen05 out.")
        tcgen05.instruction(value, asked, as_json)
        return
    tcgen05.check_none(asked)
    if (value is None) == (asked["size"] is None):
        raise UsageError("give a descriptor such as 0x4000004000010000, or --tile 128x64 --type bf16.")
    if value is not None:
        if beside := _beside():
            raise UsageError(f"a descriptor says all of itself: leave {beside[0]} out, or ask for a --tile.")
        _explain(value, as_json)
        return
    if asked["tcgen05"]:
        tcgen05.tile(asked, as_json)
        return
    lines, k = asked["size"]
    kind, *taken = _kind(asked, lines)
    tile = ask.tile((lines, k), kind, asked["major"], asked["swizzle"].span, (taken[0], taken[1]))
    if as_json:
        click.echo(json.dumps(ask.to_json(tile)))
    else:
        _tile(tile)


def _beside() -> list[str]:
    """The options given that say something of a tile."""
    ctx, default = click.get_current_context(), ParameterSource.DEFAULT
    names = {p.name: p.opts[0] for p in ctx.command.params if p.name not in ("value", "as_json", "help")}
    return [words for name, words in names.items() if name and ctx.get_parameter_source(name) != default]


def _explain(value: str, as_json: bool) -> None:
    from tcprobe.ask.descriptor import explained, fields
    from tcprobe.layout.descriptor import decode
    from tcprobe.layout.tcgen05_descriptor import is_tcgen05

    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", value):
        raise UsageError(f"{value[:40]!r} is not a number of 64 bits such as 0x4000004000010000.")
    bits = int(value, 0) if value[:2].lower() == "0x" else int(value)
    if is_tcgen05(bits):
        tcgen05.value(bits, as_json)
        return
    decoded = decode(bits)
    if as_json:
        click.echo(json.dumps({"descriptor": f"{decoded.encode():#018x}", **fields(decoded)}))
        return
    click.echo(bold(f"{decoded.encode():#018x}"))
    for line in explained(decoded):
        wrapping.line(f"  {line}")


def _kind(params: dict[str, Any], lines: int) -> tuple[str, int, int]:
    """The type, and the lines and bytes of k that one wgmma takes, of --type and --instruction."""
    from tcprobe.isa.names import resolve

    if params["instruction"] is None:
        if params["kind"] is None:
            raise UsageError("say --type or --instruction: what the tile holds.")
        return params["kind"], min(64, lines), 32
    meaning = resolve(params["instruction"])
    one = meaning.shared_operand if in_shared_memory(params["instruction"]) else None
    row = one.instruction if one else meaning.instruction
    if not row.described:
        raise UsageError(f"{row.id} has no operand behind a descriptor; those of wgmma have.")
    held = one.held if one else row.described[-1].held
    if params["kind"] not in (None, held.type):
        raise UsageError(f"{row.id} takes {held.type}, not {params['kind']}.")
    block, k = (held.rows, held.cols) if held.name == "a_smem" else (held.cols, held.rows)
    return held.type, block, k * held.slot_bits // 8


def _tile(tile: SharedTile) -> None:
    from tcprobe.ask.descriptor import cuda, cute, tma

    one = tile.descriptor
    swizzle = f"swizzle {one.swizzle}" if one.swizzle else "no swizzle"
    wrapping.line(f"{tile.lines} x {tile.k} of {tile.type}, {tile.major} contiguous, {swizzle}: {tile.bytes} bytes")
    click.echo(bold(f"{one.encode():#018x}") + " with start address 0")
    wrapping.line(f"  LBO {one.lbo}: {tile.reasons['lbo']}")
    wrapping.line(f"  SBO {one.sbo}: {tile.reasons['sbo']}")
    wrapping.line(f"  start: a multiple of {tile.alignment}" + _base(tile))
    steps = ", ".join(f"+{n} bytes (+{n // 16})" for n in tile.per_k)
    wrapping.line(f"  each k step: {steps or 'there is one only'}")
    block = f"+{tile.per_block} bytes (+{tile.per_block // 16})" if tile.per_block else "there is one only"
    wrapping.line(f"  each block of {tile.block} lines: {block}")
    wrapping.line(f"  byte of element (line, k): {tile.formula}")
    click.echo(f"  CUDA: {cuda(tile)}")
    for name, text in cute(tile).items():
        click.echo(f"  CuTe {name}: {text}")
    box = tma(tile)
    wrapping.line(
        f"  TMA: {box['boxes']} x box {box['box'][0]} x {box['box'][1]} ({box['box_bytes']} bytes), "
        f"{box['data_type']}, {box['swizzle']}"
    )


def _base(tile: SharedTile) -> str:
    width = tile.descriptor.swizzle
    return f"; elsewhere, at a multiple of 128, base offset (address / 128) % {width // 16}" if width else ""


COMMANDS = (descriptor,)
