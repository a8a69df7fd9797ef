"""`tcprobe tensormap`: the arguments of cuTensorMapEncodeTiled, and what the driver checks of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.isa.tensor_map import FILLS, INTERLEAVES, PROMOTIONS
from tcprobe.question import wrapping
from tcprobe.question.options import ARCH, JSON, ElementType, MapSwizzle, Number, Sides, read_results
from tcprobe.text import escaped

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.cli.requests import MapRequest
    from tcprobe.store.choose import Layers


class MapTile(click.ParamType[tuple[int, ...]]):
    """A tile of one to five sides, outer ones first."""

    name = "ROWSxCOLS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Its sides; UsageError, which names --tile and --box, for those of the driver's order."""
        from tcprobe.layout import swizzle

        return value if isinstance(value, tuple) else swizzle.map_tile(str(value))


@click.command(short_help="The tensor map of a tile: arguments, and what the driver checks.")
@click.option(
    "--type",
    "type",
    type=ElementType(),
    required=True,
    metavar="TYPE",
    help="PTX's, such as bf16, or FLOAT32_FTZ; from sm_100 on also 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B.",
)
@click.option("--tile", type=MapTile(), help="Elements of the tile in shared memory: 128x64, 2x128x64.")
@click.option("--box", type=Sides(), help="Elements of one box, instead of --tile; inner side first: 64,128.")
@click.option("--dims", type=Sides(), help="Elements of the tensor, inner side first. Default: the tile.")
@click.option("--strides", type=Sides(), help="Bytes between rows, and so on outwards. Default: no gaps.")
@click.option("--steps", type=Sides(), help="Element stride per dimension. Default: 1.")
@click.option(
    "--swizzle",
    type=MapSwizzle(),
    default="none",
    show_default=True,
    help="none, 32, 64, 128: SWIZZLE_128B; from sm_100 on also 128B_ATOM_32B and its like.",
)
@click.option(
    "--interleave", type=click.Choice(list(INTERLEAVES)), default="NONE", show_default=True, help="Interleave."
)
@click.option(
    "--promotion", type=click.Choice(list(PROMOTIONS)), default="NONE", show_default=True, help="L2 promotion."
)
@click.option(
    "--oob-fill",
    "fill",
    type=click.Choice(list(FILLS)),
    default="NONE",
    show_default=True,
    help="What fills elements outside the tensor: zeros, or a NaN.",
)
@click.option(
    "--address",
    type=Number(1),
    default=16,
    show_default=True,
    metavar="BYTES",
    help="Alignment of the tensor's address.",
)
@ARCH
@read_results
@JSON
def tensormap(name: str | None, layers: Layers, as_json: bool, **request: Unpack[MapRequest]) -> None:
    """Show the arguments of cuTensorMapEncodeTiled for a tile: its boxes, the call, and where each byte lands.

    A map that the driver would refuse is refused here, with every rule that it breaks and the rule's evidence.
    """
    from tcprobe.ask import tensor_map as ask
    from tcprobe.isa.arch import arch as arch_row
    from tcprobe.store.kinds import tensor_maps
    from tcprobe.store.kinds.tensor_maps import ENCODINGS

    arch = ask.check_arch(name)
    findings = tensor_maps.newest(layers, arch) or tensor_maps.newest(layers, tensor_maps.BORROWED)
    measured = findings.get(ENCODINGS)
    words = tensor_maps.rests_on(layers, arch)
    plan = ask.plan(ask.MapOptions(**request), measured, arch_row(arch).number)
    if as_json:
        click.echo(json.dumps(ask.to_json(plan, arch, words)))
        return
    wrapping.lines(plan.in_words)
    wrapping.line(escaped(words))


COMMANDS = (tensormap,)
