"""Probes assembled in one go and disassembled in one go: the code of every kernel, and where its parameters are.

The raw code of all kernels, one after the other, goes through `nvdisasm --binary`, which also prints the code of archs
whose cubins nvdisasm 13 refuses (Volta). Parameters are where the cubin says (EIATTR_PARAM_CBANK in .nv.info).
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tcprobe.arch import Arch
from tcprobe.backends.compiler_log import blame
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.instruction import version
from tcprobe.probes.ptx import Kernel, module
from tcprobe.sass.decode import LINE, Instruction, UnreadError, instruction, opcode_of
from tcprobe.sass.toolchain import Toolchain, call

PARAM_CBANK = 0x0A  # attribute of .nv.info.<kernel>: offset and size of the parameters in constant bank 0
HAS_SIZE = 0x04  # format of an attribute that is followed by its value; others hold it in place


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
    """(code, refused with ptxas' words), both by kernel name. EnvironmentUnfitError if the tools fail at all."""
    refused: dict[str, str] = {}
    pending = sorted(kernels, key=lambda k: version(k.target.ptx))
    with tempfile.TemporaryDirectory(prefix="tcprobe-") as folder:
        cubin = Path(folder) / "probes.cubin"
        while pending:
            words = _ptxas(tools, pending, row, cubin)
            if not words:
                return _disassemble(tools, cubin, row), refused
            refused |= words
            pending = [k for k in pending if k.name not in words]
    return {}, refused


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


def _disassemble(tools: Toolchain, cubin: Path, row: Arch) -> dict[str, Code]:
    sections, parameters = _sections(cubin)
    image = cubin.with_suffix(".bin")
    image.write_bytes(b"".join(sections.values()))
    done = call([tools.nvdisasm, "--binary", tools.disassembles_as(row), str(image)])
    lines = [(int(m[1], 16), m[2]) for m in map(LINE.match, done.stdout.splitlines()) if m]
    size = sum(map(len, sections.values()))
    if done.returncode or [at for at, _ in lines] != list(range(0, size, 16)):
        raise EnvironmentUnfitError(
            f"{tools.nvdisasm} does not print the code of {row.name} ({len(lines)} of {size // 16} instructions): "
            f"{done.stderr.strip()[:300] or done.stdout[:200]!r}."
        )
    codes, start = {}, 0
    for name, raw in sections.items():
        end = start + len(raw)
        codes[name] = _code(lines[start // 16 : end // 16], start, parameters[name])
        start = end
    return codes


def _code(lines: Sequence[tuple[int, str]], start: int, parameters: tuple[int, int]) -> Code:
    instructions, unread = {}, {}
    for at, text in lines:
        try:
            instructions[at] = instruction(text, at)
        except UnreadError as error:
            unread[at] = f"{error}, in `{text}`"
    return Code(instructions, start, *parameters, unread, tuple(opcode_of(text) for _, text in lines))


def _sections(cubin: Path) -> tuple[dict[str, bytes], dict[str, tuple[int, int]]]:
    """(raw code, (offset, size) of the parameters) by kernel."""
    try:
        with cubin.open("rb") as file:
            sections = {s.name: s.data() for s in ELFFile(file).iter_sections()}
        codes = {name.removeprefix(".text."): raw for name, raw in sections.items() if name.startswith(".text.")}
        return codes, {name: _parameters(sections[f".nv.info.{name}"]) for name in codes}
    except (ELFError, KeyError, struct.error, OSError) as error:
        raise EnvironmentUnfitError(f"ptxas wrote no cubin that can be read: {error}.") from None


def _parameters(info: bytes) -> tuple[int, int]:
    """(offset, size) of the parameters in constant bank 0, from the attributes of .nv.info.<kernel>."""
    place = 0
    while place < len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, place)
        place += 4
        if kind == HAS_SIZE:
            if attribute == PARAM_CBANK:
                _, offset, size = struct.unpack_from("<IHH", info, place)
                return offset, size
            place += value
    raise KeyError("EIATTR_PARAM_CBANK")
