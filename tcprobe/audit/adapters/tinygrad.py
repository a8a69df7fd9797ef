"""tinygrad: the bits of lane and of i of a TensorCore, as its opts and swizzles name them (codegen/opt/tc.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tcprobe.audit.statement import StatedPlace, Statement, statement
from tcprobe.emit.tinygrad import Bit
from tcprobe.isa.operand import FACTORS, MULTIPLIED

PACKAGE = "tinygrad"
REPORTED: Mapping[str, str] = {}
TYPES = {
    "half": "f16",
    "__bf16": "bf16",
    "bfloat16": "bf16",
    "float": "tf32",
    "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2",
}


def statements() -> Iterator[Statement]:
    """A, B and D of each multiply of NVIDIA GPUs."""
    from tinygrad.codegen.opt import tc

    for core in dict.fromkeys((*tc.cuda_sm75, *tc.cuda_sm80, *tc.cuda_sm89)):
        n, m, k = core.dims
        into, out = TYPES[core.dtype_in.name], {"half": "f16"}.get(core.dtype_out.name, "f32")
        form = f"mma.m{m}n{n}k{k}.row.col.{out}.{into}.{into}.{out}"
        for number, operand in enumerate(MULTIPLIED):
            place = place_of_slot(core, operand)
            yield statement(
                f"{core}.{operand}",
                f"{form}.{operand}",
                (core.threads, core.elements_per_thread[number]),
                place,
                atom=str(core),
                code=CODE.format(name=str(core), operand=operand),
            )


def place_of_slot(core: Any, operand: str) -> Callable[[int, int], StatedPlace]:
    """Where a slot lies: opts name the bits of D, a swizzle those of A or B, i from the highest down."""
    names = _names(core)
    if operand == "d":
        lane = [f"l{j}" for j in range(core.opts.count("l0") + core.opts.count("l1"))]
        i = [f"u{j}" for j in range(core.opts.count("u0") + core.opts.count("u1"))]
    else:
        lane, upcast, reduce = core.swizzle[FACTORS.index(operand)]
        own = "mk" if operand == "a" else "kn"
        names_of_bits = [*upcast, *reduce]
        positions = [*(f"u{j}" for j in range(len(upcast))), *(f"r{j}" for j in range(len(reduce)))]
        order = [*(f"r{j}" for j in range(len(reduce))), *(f"u{j}" for j in range(len(upcast)))]
        by_position = dict(zip(positions, names_of_bits, strict=True))
        i = [name for name in (by_position[place] for place in order) if names[name][0] in own]
    axes = {"a": "mk", "b": "kn", "d": "mn"}[operand]
    return lambda thread, number: _place(
        axes,
        [(names[name], thread >> j & 1) for j, name in enumerate(lane)]
        + [(names[name], number >> j & 1) for j, name in enumerate(i)],
    )


def _names(core: Any) -> dict[str, Bit]:
    """Which bit of n, m or k each name means: opts count bits of 0, n, and of 1, m, upwards."""
    names: dict[str, Bit] = {f"r{j}": ("k", j) for j in range((core.dims[2] - 1).bit_length())}
    counts = {"l": 0, "u": 0, "0": 0, "1": 0}
    for kind, axis in core.opts:
        names[f"{kind}{counts[kind]}"] = ("nm"[int(axis)], counts[axis])
        counts[kind] += 1
        counts[axis] += 1
    return names


def _place(axes: str, bit_values: Sequence[tuple[Bit, int]]) -> StatedPlace:
    first, second = (
        sum(value << number for (axis, number), value in bit_values if axis == matrix_axis) for matrix_axis in axes
    )
    return first, second


CODE = """\
from tinygrad.codegen.opt import tc
core = next(c for c in (*tc.cuda_sm80, *tc.cuda_sm89) if str(c) == "{name}")
names, counts = {{f"r{{j}}": ("k", j) for j in range((core.dims[2] - 1).bit_length())}}, dict(l=0, u=0, n=0, m=0)
for kind, axis in core.opts:
    axis = "nm"[int(axis)]
    names[f"{{kind}}{{counts[kind]}}"] = (axis, counts[axis])
    counts[kind] += 1
    counts[axis] += 1
local, upcast, reduce = core.swizzle["abd".index("{operand}") % 2]
axes = dict(a="mk", b="kn", d="mn")["{operand}"]
held = [n for n in (*reduce, *upcast) if names[n][0] in axes]
if "{operand}" == "d":
    local, held = [n for n in names if n[0] == "l"], [n for n in names if n[0] == "u"]
def stated(thread, i):
    at = dict.fromkeys("mnk", 0)
    for value, bits in ((thread, local), (i, held)):
        for j, name in enumerate(bits):
            at[names[name][0]] |= (value >> j & 1) << names[name][1]
    return at[axes[0]], at[axes[1]]
"""
