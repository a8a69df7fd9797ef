"""A kernel through nvcc: its PTX or its machine code."""

from __future__ import annotations

from typing import Literal

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.sass import toolchain
from tcprobe.system.children import Scratch, one_line


def compiled(source: str, target: str, to: Literal["ptx", "cubin"]) -> bytes:
    """What nvcc makes of CUDA C++ for a target such as sm_90a; EnvironmentUnfitError without it or if it refuses."""
    nvcc = toolchain.program("nvcc")
    with Scratch() as scratch:
        text, made = scratch.folder / "kernel.cu", scratch.folder / f"kernel.{to}"
        text.write_text(source)
        command = [nvcc, f"-{to}", f"-arch={target}", str(text), "-o", str(made)]
        done = toolchain.attempt(scratch, command, toolchain.LIMIT)
        if done.returncode:
            raise EnvironmentUnfitError(f"{nvcc} does not compile the kernel: {one_line(done.stderr)[:300]}")
        return made.read_bytes()
