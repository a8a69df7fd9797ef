"""What `import tcprobe` gives for tiles in shared memory: descriptors, tensor maps, swizzles.

>>> import tcprobe
>>> tcprobe.swizzle("3,4,3")(1024 + 16)
1040
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch as named
from tcprobe.question.arguments import (
    ArchName,
    PlaceName,
    Sizes,
    TypeName,
    arch_name,
    checked,
    element_type,
    place,
    sizes,
    whole,
)
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tcprobe.ask.descriptor import SharedTile
    from tcprobe.ask.swizzle import Answer
    from tcprobe.ask.tcgen05_descriptor import Tcgen05Tile
    from tcprobe.ask.tensor_map import MapPlan
    from tcprobe.isa.bit_fields import DecodedWord
    from tcprobe.layout.descriptor import Descriptor
    from tcprobe.layout.swizzle import Swizzle


@checked
def descriptor(
    value: int | None = None,
    *,
    tile: Sizes | None = None,
    kind: TypeName | None = None,
    major: str = "k",
    swizzle: PlaceName = "128",
    instruction: str | None = None,
    tcgen05: bool = False,
) -> SharedTile | Tcgen05Tile | Descriptor | DecodedWord:
    """The shared memory descriptor of a `tile` of (lines, k) elements for wgmma, or tcgen05; of 64 bits the fields.

    The type is `kind`, or that of a wgmma or its operand, `instruction`; bf16 without both. What a `value` of 64 bits
    is for, its version bits say.

    >>> import tcprobe
    >>> hex(tcprobe.descriptor(tile=(128, 64), kind="bf16").descriptor.encode())
    '0x4000004000010000'
    >>> tcprobe.descriptor(0x4000004000010000).sbo
    1024
    """
    from tcprobe.ask import descriptor as ask
    from tcprobe.layout import descriptor as tcgen05_word
    from tcprobe.layout.descriptor import decode
    from tcprobe.layout.swizzle import swizzle_named

    if value is not None:
        bits = whole("value", value)
        if (tile, kind, major, swizzle, instruction, tcgen05) != (None, None, "k", "128", None, False):
            raise UsageError("a descriptor's value holds every field: give the value alone, or a tile.")
        return tcgen05_word.read_tcgen05(bits) if tcgen05_word.is_tcgen05(bits) else decode(bits)
    sides = sizes("tile", tile, 2) if tile is not None else ()
    if len(sides) != 2:
        raise UsageError("give a value of 64 bits, or a tile of (lines, k) and its kind.")
    lines, k = sides
    of_type, span = None if kind is None else element_type(kind), swizzle_named(place(swizzle)).span
    if tcgen05:
        from tcprobe.ask import tcgen05_descriptor

        if instruction is not None:
            raise UsageError("`instruction` is for wgmma: give `kind` with `tcgen05`.")
        return tcgen05_descriptor.Tcgen05Tile(tcgen05_descriptor.tile((lines, k), of_type or "bf16", major, span))
    block = ask.block_of(instruction, of_type) if instruction else (of_type or "bf16", min(64, lines), 32)
    return ask.tile((lines, k), block[0], major, span, block[1:])


@checked
def tensormap(
    kind: TypeName,
    *,
    tile: Sizes | None = None,
    box: Sizes | None = None,
    dims: Sizes | None = None,
    strides: Sizes | None = None,
    steps: Sizes | None = None,
    interleave: str = "NONE",
    swizzle: PlaceName = "NONE",
    promotion: str = "NONE",
    fill: str = "NONE",
    address: int = 16,
    arch: ArchName | None = None,
) -> MapPlan:
    """The arguments of cuTensorMapEncodeTiled for a `tile`, which may take several boxes, or for one `box`.

    A `tile` is (rows, columns) or "128x64", outer sides before them; all else has the inner side first. `dims` of the
    tensor are those of the tile without any, `strides` in bytes those without gaps, `steps` all 1; `address` is what
    the tensor's address is a multiple of. UsageError where the driver would refuse the map, by every rule it breaks.

    >>> import tcprobe
    >>> tcprobe.tensormap("bf16", tile=(128, 64), swizzle="128B").map.box
    (64, 128)
    """
    from tcprobe.ask import tensor_map as ask
    from tcprobe.layout.swizzle import map_mode, map_tile
    from tcprobe.store.kinds import tensor_maps
    from tcprobe.store.kinds.tensor_maps import ENCODINGS

    sides = {"box": box, "dims": dims, "strides": strides, "steps": steps}
    options = ask.MapOptions(
        element_type(kind),
        tile=map_tile(tile) if isinstance(tile, str) else None if tile is None else sizes("tile", tile),
        **{name: None if side is None else sizes(name, side) for name, side in sides.items()},
        interleave=interleave,
        swizzle=map_mode(place(swizzle)),
        promotion=promotion,
        fill=fill,
        address=whole("address", address),
    )
    on, folders = ask.check_arch(arch_name(arch)), layers(None)
    findings = tensor_maps.newest(folders, on) or tensor_maps.newest(folders, tensor_maps.BORROWED)
    return ask.plan(options, findings.get(ENCODINGS), named(on).number)


@checked
def swizzle(what: str | NDArray[np.int64], bits: int | None = None) -> Swizzle | Answer:
    """A swizzle by name, which maps offsets; of an array of offsets by [row, col] the layout behind it, proven.

    >>> import tcprobe
    >>> tcprobe.swizzle("3,4,3")(1024 + 16)
    1040
    """
    from tcprobe.layout.swizzle import swizzle_named

    if isinstance(what, str):
        if bits is not None:
            raise UsageError("`bits` are those of the elements of an array; a swizzle by name maps any offsets.")
        return swizzle_named(what).swizzle
    import numpy as np

    from tcprobe.ask.swizzle import layout_of
    from tcprobe.layout.address import AddressMap

    if not isinstance(what, np.ndarray) or what.ndim != 2 or not what.size or what.dtype.kind not in "iu":
        raise UsageError("offsets are a NumPy array of whole numbers by [row, col].")
    if what.min() < 0 or (bits is not None and (bits < 1 or bits & (bits - 1) or bits > 128)):
        raise UsageError("offsets are 0 or more, in elements of 1, 2, 4 to 128 bits.")
    rows, cols = np.indices(what.shape)
    return layout_of(AddressMap.of(rows.ravel().tolist(), cols.ravel().tolist(), what.ravel().tolist()), bits)
