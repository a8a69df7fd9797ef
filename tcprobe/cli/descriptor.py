"""`tcprobe descriptor`: the descriptors of wgmma, and by its options those of tcgen05."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli import tcgen05_descriptor as tcgen05
from tcprobe.cli.shared_operand import MAJOR
from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.options import JSON, ElementType, Given, Sides, SwizzleType, given
from tcprobe.question.wrapping import bold

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.cli.requests import TileDescriptorRequest


WITH_TILE = "; a tile needs --tile LINESxK and --type or --instruction"


@click.command(short_help="Descriptors of wgmma and tcgen05, and back.")
@click.argument("value", nargs=-1, metavar="[0xVALUE]", callback=lambda _ctx, _param, words: " ".join(words) or None)
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
def descriptor(value: str | None, as_json: bool, **tile: Unpack[TileDescriptorRequest]) -> None:
    """Show the descriptor of a tile: the 64 bits with the reasons, the steps along k and along lines, and code for
    CUDA, CuTe and TMA.

    A value of 64 bits is decoded instead, for wgmma or, according to its version bits, for tcgen05. --idesc does the
    same for the 32-bit instruction descriptor of tcgen05.mma, both ways, --zero-mask for the 64 bits by which
    tcgen05.mma.ws leaves columns of B out.
    """
    from tcprobe.ask import descriptor as ask

    if tile["idesc"]:
        if beside := given("idesc", *tcgen05.NAMES):
            raise UsageError(
                f"--idesc describes an instruction, not a tile: remove {', '.join(beside.values())}. Types of A and B "
                "are --a-type and --b-type, what is contiguous --set a_major=mn and b_major=mn."
            )
        tcgen05.instruction(value, tile, as_json)
        return
    if tile["zero_mask"]:
        tcgen05.zero_mask(value, tile, as_json)
        return
    tcgen05.check_none(tile)
    size = tile["size"]
    if value is not None and size is None:
        quoting = "; a name of several words after --instruction needs quotes" if tile["instruction"] else WITH_TILE
        tcgen05.bits_of(value, 64, quoting)
        if beside := given():
            raise UsageError(
                f"a descriptor's value holds every field: remove {next(iter(beside.values()))}, or give a --tile "
                "instead of the value."
            )
        _explain(value, as_json)
        return
    if value is not None or size is None:
        if tile["instruction"] is not None:
            ask.block_of(tile["instruction"], tile["kind"])  # says what is wrong with that first
        raise UsageError("give a descriptor such as 0x4000004000010000, or --tile 128x64 --type bf16.")
    if tile["tcgen05"]:
        tcgen05.tile(size, tile, as_json)
        return
    kind, *block = _kind(tile, size[0])
    shared_tile = ask.tile(size, kind, tile["major"], tile["swizzle"].span, (block[0], block[1]))
    if as_json:
        click.echo(json.dumps(ask.to_json(shared_tile)))
    else:
        wrapping.lines(shared_tile.in_words, f"{shared_tile.descriptor.encode():#018x}")


def _explain(value: str, as_json: bool) -> None:
    from tcprobe.ask.descriptor import field_lines, fields
    from tcprobe.layout.descriptor import decode, is_tcgen05

    bits = tcgen05.bits_of(value, 64, WITH_TILE)
    if is_tcgen05(bits):
        tcgen05.value(bits, as_json)
        return
    decoded = decode(bits)
    if as_json:
        click.echo(json.dumps({"descriptor": f"{decoded.encode():#018x}", **fields(decoded)}))
        return
    click.echo(bold(f"{decoded.encode():#018x}"))
    for line in field_lines(decoded):
        wrapping.line(f"  {line}")


def _kind(descriptor_request: TileDescriptorRequest, line_count: int) -> tuple[str, int, int]:
    """The type, and the lines and bytes of k that one wgmma takes, of --type and --instruction."""
    from tcprobe.ask.descriptor import block_of

    if descriptor_request["instruction"] is not None:
        return block_of(descriptor_request["instruction"], descriptor_request["kind"])
    if descriptor_request["kind"] is None:
        raise UsageError("the tile's element type is missing: give --type or --instruction.")
    return descriptor_request["kind"], min(64, line_count), 32


COMMANDS = (descriptor,)
