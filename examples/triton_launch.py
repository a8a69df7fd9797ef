"""A launch file for a kernel of Triton's, from its cache: what `tcprobe ablate KERNEL.cubin --launch FILE.py` runs.

    python examples/triton_launch.py CACHE/HASH/matmul.json f16:128x4096 f16:4096x256 f16:128x256 128 256 ... > l.py

Triton keeps KERNEL.json (threads, bytes of shared memory) beside KERNEL.cubin (~/.triton/cache, or TRITON_CACHE_DIR).
What follows are the kernel's arguments in order, without those that Triton took for constants (`tl.constexpr`, and
numbers that are 1): an array as TYPE:SIDExSIDE, filled with random numbers, or a number, f for a float (0.5f). What
Triton adds at the end, pointers to its own scratch memory, is null.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tcprobe.sass.elf import cubin

TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i32": "int32", "i64": "int64"}
TYPES |= {"bf16": "uint16", "e4m3": "uint8", "e5m2": "uint8"}  # NumPy has none: bits
TEXT = '''"""How {name} is launched, as `tcprobe ablate` asks."""

import numpy as np


def filled(kind, *shape):
    """An array of random numbers near 0; of bits, of small ones."""
    numbers = np.random.default_rng(1).standard_normal(shape) / 8
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind in ("e4m3", "e5m2"):
        return (np.abs(numbers) * 64).astype(np.uint8)
    return numbers.astype({types}[kind])


def launch(kernel):
    """Grid, block, bytes of shared memory, and arguments."""
    arguments = [{arguments}]
    return {grid}, {threads}, {shared}, arguments
'''


def argument(text: str) -> str:
    """Python for an argument; ValueError if it is none."""
    if match := re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", text):
        if match[1] not in TYPES:
            raise ValueError(f"{match[1]}: one of {', '.join(TYPES)} is needed.")
        return f"filled({match[1]!r}, {match[2].replace('x', ', ')})"
    if re.fullmatch(r"-?\d+", text):
        return text
    if re.fullmatch(r"-?\d+(\.\d+)?f", text):
        return f"np.float32({text[:-1]})"
    raise ValueError(f"{text}: an array (f16:128x4096), a number, or a float (0.5f) is needed.")


def launch_file(about: dict, code: bytes, given: Sequence[str], grid: tuple[int, ...] = (1,)) -> str:
    """The file for a kernel, by what Triton says about it; ValueError for arguments that it does not take."""
    (function,) = (each for each in cubin(code).functions if each.name == about["name"])
    taken = len(function.parameters.places) if function.parameters else 0
    added = taken - len(given)
    if not 0 <= added <= 2:
        raise ValueError(f"{len(given)} arguments; {about['name']} takes {taken}, with two of Triton's own.")
    return TEXT.format(
        name=about["name"],
        types=TYPES,
        arguments=", ".join([*map(argument, given), *["None"] * added]),
        grid=grid,
        threads=32 * about["num_warps"],
        shared=about["shared"],
    )


def main(arguments: Sequence[str]) -> int:
    """Print the file."""
    if not arguments or not arguments[0].endswith(".json"):
        print(__doc__)
        return 2
    path = Path(arguments[0])
    try:
        print(launch_file(json.loads(path.read_text()), path.with_suffix(".cubin").read_bytes(), arguments[1:]), end="")
    except ValueError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
