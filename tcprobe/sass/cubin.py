"""Probes assembled in one go and disassembled in one go: the code of every kernel, and where its parameters are.

The raw code of all kernels, one after the other, goes through `nvdisasm --binary`, which also prints the code of archs
whose cubins nvdisasm 13 refuses (Volta).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tcprobe.arch import Arch
from tcprobe.backends.compiler_log import blame
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.instruction import version
from tcprobe.probes.ptx import Kernel, module
from tcprobe.sass.decode import LINE, Instruction, UnreadError, instruction, opcode_of
from tcprobe.sass.toolchain import Toolchain, call

if TYPE_CHECKING:
    from tcprobe.sass.elf import Content

PARTS = 2


@dataclass(frozen=True)
class Code:
    """A kernel's instructions by address, its first address, and where its parameters are in constant bank 0.

    `unread` is why a line could not be decoded, by address; `opcodes` are those of all lines, in order.
    """

    instructions: dict[int, Instruction]
    start: int
    parameter_base: int
    parameter_bytes: int
    unread: dict[int, str]
    opcodes: tuple[str, ...]


def assemble(tools: Toolchain, kernels: Sequence[Kernel], row: Arch) -> tuple[dict[str, Code], dict[str, str]]:
    """(code, refused with ptxas' words), both by kernel name. EnvironmentUnfitError if the tools fail at all.

    ptxas works on PARTS of the kernels at the same time; nvdisasm, which takes long to start, runs once.
    """
    parts = [part for j in range(PARTS) if (part := kernels[j::PARTS])]
    refused: dict[str, str] = {}
    found: dict[str, Content] = {}
    with tempfile.TemporaryDirectory(prefix="tcprobe-") as folder, ThreadPoolExecutor(PARTS) as pool:
        paths = [Path(folder) / f"part{j}.cubin" for j in range(len(parts))]
        compiled = pool.map(lambda part, path: _compile(tools, part, path, row), parts, paths)
        from tcprobe.sass.elf import contents  # takes long to import: while ptxas works

        for path, words in zip(paths, compiled, strict=True):
            refused |= words
            if path.exists():
                made, kernels_made = contents(path)
                _check_arch(tools, made, row)
                found |= kernels_made
        _check_complete(tools, {k.name for k in kernels} - set(refused), found)
        return _disassemble(tools, found, Path(folder), row) if found else {}, refused


def _check_arch(tools: Toolchain, made: str, row: Arch) -> None:
    if made != row.name:
        raise EnvironmentUnfitError(
            f"{tools.ptxas} was asked for {row.name} and assembled for {made}. Choose another toolkit with --cuda."
        )


def _check_complete(tools: Toolchain, asked: set[str], found: Mapping[str, Content]) -> None:
    missing = sorted(asked - set(found))
    if missing:
        raise EnvironmentUnfitError(f"{tools.ptxas} left out {len(missing)} kernels, first {missing[0]}.")


def _compile(tools: Toolchain, kernels: Sequence[Kernel], cubin: Path, row: Arch) -> dict[str, str]:
    """Assemble into `cubin` all that ptxas does not refuse; what it refuses, with its words."""
    refused: dict[str, str] = {}
    pending = sorted(kernels, key=lambda k: version(k.target.ptx))
    while pending and (words := _ptxas(tools, pending, row, cubin)):
        refused |= words
        pending = [k for k in pending if k.name not in words]
    if not pending:
        cubin.unlink(missing_ok=True)
    return refused


def _ptxas(tools: Toolchain, kernels: Sequence[Kernel], row: Arch, cubin: Path) -> dict[str, str]:
    """Assemble into `cubin`; the kernels that ptxas refuses, with its words."""
    source = cubin.with_suffix(".ptx")
    text = module(kernels, row)
    source.write_text(text)
    target = text.split("\n.target ", 1)[1].split("\n", 1)[0]
    arch = row.name + (target[-1] if not target[-1].isdigit() else "")
    done = call([tools.ptxas, "-arch", arch, str(source), "-o", str(cubin)])
    if done.returncode == 0 and cubin.exists():
        return {}
    words = done.stderr.strip()[:300] or f"ptxas ended with code {done.returncode}"
    return blame(done.stderr, kernels) or _each_alone(tools, kernels, row, cubin, words)


def _each_alone(tools: Toolchain, kernels: Sequence[Kernel], row: Arch, cubin: Path, words: str) -> dict[str, str]:
    """ptxas refused a module without naming a kernel: find out which it refuses, or that it assembles nothing."""
    if len(kernels) == 1:
        return {kernels[0].name: words}
    refused: dict[str, str] = {}
    for kernel in kernels:
        refused |= _ptxas(tools, [kernel], row, cubin)
    if not 0 < len(refused) < len(kernels):
        raise EnvironmentUnfitError(f"{tools.ptxas} cannot assemble the probes for {row.name}: {words}.")
    return refused


def _disassemble(tools: Toolchain, found: dict[str, Content], folder: Path, row: Arch) -> dict[str, Code]:
    """The code of all kernels; kernels with the same bytes and parameters share it."""
    distinct = dict.fromkeys(found.values())
    image = folder / "code.bin"
    image.write_bytes(b"".join(raw for raw, *_ in distinct))
    done = call([tools.nvdisasm, "--binary", tools.disassembles_as(row), str(image)])
    lines = [(int(m[1], 16), m[2]) for m in map(LINE.match, done.stdout.splitlines()) if m]
    size = sum(len(raw) for raw, *_ in distinct)
    if done.returncode or [at for at, _ in lines] != list(range(0, size, 16)):
        raise EnvironmentUnfitError(
            f"{tools.nvdisasm} does not print the code of {row.name} ({len(lines)} of {size // 16} instructions): "
            f"{done.stderr.strip()[:300] or done.stdout[:200]!r}."
        )
    codes, start = {}, 0
    for kernel in distinct:
        raw, offset, parameters = kernel
        end = start + len(raw)
        codes[kernel] = _code(lines[start // 16 : end // 16], start, (offset, parameters))
        start = end
    return {name: codes[kernel] for name, kernel in found.items()}


def _code(lines: Sequence[tuple[int, str]], start: int, parameters: tuple[int, int]) -> Code:
    instructions, unread = {}, {}
    for at, text in lines:
        try:
            instructions[at] = instruction(text, at)
        except UnreadError as error:
            unread[at] = f"{error}, in `{text}`"
    return Code(instructions, start, *parameters, unread, tuple(opcode_of(text) for _, text in lines))
