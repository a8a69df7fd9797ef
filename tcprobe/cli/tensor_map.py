"""`tcprobe tensormap`: the arguments of cuTensorMapEncodeTiled, and what the driver checks of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tcprobe.cli.options import ARCH, JSON, Number, read_results
from tcprobe.cli.places import ElementType, Sides, SwizzleType
from tcprobe.isa.tensor_map import FILLS, INTERLEAVES, PROMOTIONS
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.ask.tensor_map import MapPlan
    from tcprobe.store.choose import Layers


@click.command(short_help="The tensor map of a tile: arguments, and what the driver checks.")
@click.option(
    "--type", "type", type=ElementType(), required=True, metavar="TYPE", help="PTX's, such as bf16, or FLOAT32_FTZ."
)
@click.option("--tile", type=Sides(), help="Elements that are wanted in shared memory, inner side first: 64,128.")
@click.option("--box", type=Sides(), help="Elements of one box, instead of --tile.")
@click.option("--dims", type=Sides(), help="Elements of the tensor in global memory. Default: the tile.")
@click.option("--strides", type=Sides(), help="Bytes between rows, and so on outwards. Default: no gaps.")
@click.option("--steps", type=Sides(), help="Every how manieth element along each side. Default: every one.")
@click.option(
    "--swizzle", type=SwizzleType(), default="none", show_default=True, help="none, 32, 64, 128: SWIZZLE_128B."
)
@click.option("--interleave", type=click.Choice(list(INTERLEAVES)), default="NONE", show_default=True)
@click.option("--promotion", type=click.Choice(list(PROMOTIONS)), default="NONE", show_default=True, help="Of L2.")
@click.option("--oob-fill", "fill", type=click.Choice(list(FILLS)), default="NONE", show_default=True,
              help="Of elements outside the tensor: zeros, or a NaN.")  # fmt: skip
@click.option("--address", type=Number(1), default=16, show_default=True, metavar="BYTES",
              help="What the tensor's address is a multiple of.")  # fmt: skip
@ARCH
@read_results
@JSON
def tensormap(name: str | None, layers: Layers, as_json: bool, **asked: Any) -> None:
    """The arguments of cuTensorMapEncodeTiled for a tile: its boxes, the call, where the bytes come to lie.

    What the driver would refuse is refused, by every rule that is broken, with what it rests on.
    """
    from tcprobe.ask import tensor_map as ask
    from tcprobe.store import tensor_maps

    span = asked.pop("swizzle").span
    arch = ask.check_arch(name)
    measured = tensor_maps.newest(layers, arch) or tensor_maps.newest(layers, tensor_maps.BORROWED)
    words = tensor_maps.rests_on(layers, arch)
    plan = ask.plan(ask.MapOptions(**asked, swizzle=f"{span}B" if span else "NONE"), measured)
    if as_json:
        click.echo(json.dumps(ask.to_json(plan, arch, words)))
        return
    _text(plan)
    click.echo(escaped(words))


def _text(plan: MapPlan) -> None:
    from tcprobe.ask.tensor_map import cuda

    made = plan.map
    count = " x ".join(map(str, plan.boxes))
    click.echo(f"{count} boxes of {' x '.join(map(str, made.box))} elements, inner side first: rows of "
               f"{made.row_bytes} bytes, {plan.bytes} bytes each, which is what an mbarrier expects")  # fmt: skip
    if plan.pitch:
        b = made.swizzle
        where = f"Sw<{b},4,3> of the shared address" if b else "without a swizzle"
        click.echo(f"in shared memory rows {plan.pitch} bytes apart, {where}; a box begins at a multiple of 128"
                   + (f", of {plan.alignment} for the pattern to begin with it" if b else ""))  # fmt: skip
    click.echo(cuda(plan))


COMMANDS = (tensormap,)
