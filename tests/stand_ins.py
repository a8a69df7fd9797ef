"""Stand-ins for the packages that emitted Python imports, so that each text is run here without them.

They know what the packages' documentation says of the few names that are used; `tests/test_consumers.py` runs the same
texts with the packages themselves.
"""

import math
import sys
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch


class CuteLayout(NamedTuple):
    """shape:stride, each mode taken colexicographically."""

    shape: tuple
    stride: tuple

    def __call__(self, at):
        return sum(self.mode(*mode) for mode in zip(at, self.shape, self.stride, strict=True))

    @staticmethod
    def mode(number, shape, stride):
        found = 0
        for size, step in zip(*(x if isinstance(x, tuple) else (x,) for x in (shape, stride)), strict=True):
            number, digit = divmod(number, size)
            found += digit * step
        assert number == 0
        return found


class Fragment(NamedTuple):
    """What T.Fragment is given."""

    shape: list
    forward_thread_fn: object
    forward_index_fn: object
    replicate: int = 1


class Replicated(NamedTuple):
    """A part of the warps, or lanes, that hold the same."""

    times: int


class Tiling(NamedTuple):
    """Tiles, each applied to the last dimensions."""

    tiles: tuple


class TiledLayout(NamedTuple):
    """A tiling, and which of the dimensions after it warps, lanes and vectors are."""

    tiling: Tiling
    warp_dims: tuple
    lane_dims: tuple
    vector_dim: int

    def slots(self, shape, threads):
        """The number of the element in every slot of threads in order."""
        dims = [(size, math.prod(shape[axis + 1 :])) for axis, size in enumerate(shape)]  # (size, stride)
        for tile in self.tiling.tiles:
            kept, split = dims[: -len(tile)], dims[-len(tile) :]
            assert all(size % t == 0 for (size, _), t in zip(split, tile, strict=True))
            dims = [
                *kept,
                *((size // t, step * t) for (size, step), t in zip(split, tile, strict=True)),
                *((t, step) for (_, step), t in zip(split, tile, strict=True)),
            ]
        return shared_out(self, dims, threads)


def shared_out(layout, dims, threads):
    """The number of the element in every slot of a TiledLayout, whose tiling leads to dims of (size, stride)."""
    every = (*layout.warp_dims, *layout.lane_dims, layout.vector_dim)
    owned = {len(dims) + d for d in every if isinstance(d, int)}
    registers = [range(size) if d not in owned else (0,) for d, (size, _) in enumerate(dims)]
    inside = [sum(n * step for n, (_, step) in zip(at, dims, strict=True)) for at in product(*registers)]
    length, step = dims[layout.vector_dim]
    held = [first + v * step for first in inside for v in range(length)]
    starts = [start(t // 32, layout.warp_dims, dims) + start(t % 32, layout.lane_dims, dims) for t in range(threads)]
    return [first + element for first in starts for element in held]


def start(number, owned, dims):
    """Where a warp or lane begins: its dimensions count from the last one on."""
    found = 0
    for dim in reversed(owned):
        size, step = dims[dim] if isinstance(dim, int) else (dim.times, 0)
        number, digit = divmod(number, size)
        found += digit * step
    return found


PACKAGES = {
    "numba.extending": {"register_jitable": lambda function: function},
    "cutlass.cute": {"make_layout": CuteLayout},
    "tilelang.language": {"Fragment": Fragment},
    "jax.experimental.mosaic.gpu.fragmented_array": {
        "TiledLayout": TiledLayout,
        "Tiling": Tiling,
        "Replicated": Replicated,
    },
}


@contextmanager
def stand_ins():
    """Within it the packages' names lead here, whether or not they are installed."""
    made = {}
    for path, names in PACKAGES.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            module = made.setdefault(".".join(parts[:depth]), ModuleType(parts[depth - 1]))
            if depth > 1:
                setattr(made[".".join(parts[: depth - 1])], parts[depth - 1], module)
        vars(module).update(names)
    with patch.dict(sys.modules, made):
        yield


def run(text):
    """What a text that was emitted defines."""
    scope = {}
    with stand_ins():
        exec(compile(text, "emitted", "exec"), scope)
    return scope
