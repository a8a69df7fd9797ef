"""How the commands take swizzles, sizes and types, and where a tile lies: the same words everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tcprobe.cli.options import Given
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.cli.requests import PlaceRequest
    from tcprobe.layout.swizzle import SwizzleName


class SwizzleType(click.ParamType["SwizzleName"]):
    """A swizzle in any spelling, as `layout.spelling` reads it."""

    name = "SWIZZLE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> SwizzleName:
        """The swizzle and its name."""
        from tcprobe.layout.swizzle import SwizzleName, swizzle_named

        try:
            return value if isinstance(value, SwizzleName) else swizzle_named(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class MapSwizzle(click.ParamType[str]):
    """A tensor map's mode: a swizzle in any spelling, or one with atoms of 32 or 64 bytes."""

    name = "SWIZZLE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As the driver calls it: NONE, 128B, 128B_ATOM_32B."""
        from tcprobe.layout.swizzle import map_mode

        try:
            return map_mode(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Sides(click.ParamType[tuple[int, ...]]):
    """Up to `most` numbers with x or commas between; two where that is two."""

    def __init__(self, most: int = 5, name: str = "N,...") -> None:
        self.most, self.name = most, name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """All of them."""
        from tcprobe.layout.swizzle import sizes_written

        try:
            return value if isinstance(value, tuple) else sizes_written(str(value), self.most)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class ElementType(Given):
    """An element type as PTX names it, or as C or cuda.h do."""

    name = "TYPE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """PTX's name, if there is one."""
        from tcprobe.layout.swizzle import type_named

        return type_named(super().convert(value, param, ctx))


PLACE = click.option(
    "--shared",
    "placed",
    type=Given(),
    metavar="PLACE",
    help="Layout of lines: plain (the default), pad:BYTES, boxes:BYTES, or a swizzle: 128 (SWIZZLE_128B), which means "
    "the boxes of that mode, or sw:B,M,S of byte offsets.",
)
SWIZZLE = click.option(
    "--swizzle", type=SwizzleType(), help="Instead of --shared: none, 32, 64, 128 (SWIZZLE_128B), or 3,4,3 (sw:3,4,3)."
)


def place_text(place_request: PlaceRequest) -> str:
    """Where a tile lies, by --shared or --swizzle, a swizzle in its one spelling; UsageError where both are given."""
    from tcprobe.layout.swizzle import is_swizzle, swizzle_named

    if place_request["placed"] is not None and place_request["swizzle"] is not None:
        raise UsageError("--shared and --swizzle set the same thing: remove one of them.")
    text = str(place_request["placed"] or place_request["swizzle"] or "plain")
    return str(swizzle_named(text)) if is_swizzle(text) else text
