"""Assembles and disassembles all probes at once: the code of every kernel, and where its parameters are.

The raw code of all kernels, one after the other, goes through `nvdisasm --binary`. That also prints code of archs whose
cubins nvdisasm 13 refuses (Volta).

Of a kernel that times something: the opcodes in the timed loop, and those outside it while the clock runs. A loop ends
with a backward branch; the timed one is the longest between the first and the last clock reading. If a group of
warpgroup multiplies is empty, the compiler inserts a multiply without effect; its name gets "->RZ".
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import Arch
from tcprobe.isa.opcodes import opcode
from tcprobe.probes.experiment import TimedCode
from tcprobe.probes.ptx import Kernel
from tcprobe.sass.decode import UNPRINTED, Form, UnreadError, decode, exact, opcode_of
from tcprobe.sass.disassemble import printed
from tcprobe.sass.toolchain import MOST_STUMBLES, Assembler, Toolchain, disassembler
from tcprobe.system.children import Pool, Scratch

if TYPE_CHECKING:
    from tcprobe.sass.elf import Content


ListedInstruction = tuple[int, str]  # address and text of an instruction
PARTS = 2  # ptxas that run at the same time
LEAST_PRINTED = 0.5  # least share of instructions that nvdisasm must print


@dataclass(frozen=True)
class Code:
    """A kernel's instructions by address, its first address, and where its parameters are in constant bank 0.

    `unread`: by address, why a line could not be decoded. `opcodes`: those of all lines, in order. `raw`: the encoded
    code, 16 bytes per instruction; `lines`: its text. `routines`: names of the compiler's routines that are linked into
    it.
    """

    instructions: dict[int, Form]
    start: int
    parameter_base: int
    parameter_bytes: int
    unread: dict[int, str]
    opcodes: tuple[str, ...]
    raw: bytes = b""
    routines: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def assemble(
    tools: Toolchain, kernels: Sequence[Kernel], arch: Arch, apart: bool = False
) -> tuple[dict[str, Code], dict[str, str]]:
    """(code, refusals in ptxas's words), both by kernel name; EnvironmentUnfitError if the tools fail.

    Two ptxas run at the same time, each on a module of half the kernels or, with `apart`, on one kernel at a time.
    nvdisasm, which is slow to start, runs once. A kernel's code may depend on the others in its module: the header must
    allow them all, and ptxas's code for an emulated multiply differs by some instructions if two kernels need it.
    """
    parts = [[k] for k in kernels] if apart else [part for j in range(PARTS) if (part := kernels[j::PARTS])]
    try:
        with Pool(PARTS) as pool, Scratch() as scratch:
            cubins = [scratch.folder / f"part{j}.cubin" for j in range(len(parts))]
            return _assemble([Assembler(tools, arch, scratch, cubin) for cubin in cubins], parts, pool)
    except OSError as error:
        raise EnvironmentUnfitError(f"no temporary files for the probes: {error.strerror}. Is the disk full?") from None


def _assemble(
    at_work: Sequence[Assembler], kernels_by_part: Sequence[Sequence[Kernel]], pool: Pool
) -> tuple[dict[str, Code], dict[str, str]]:
    """As `assemble`, with an assembler for each part."""
    compiled = pool.map(Assembler.assemble, at_work, kernels_by_part)
    from tcprobe.sass.elf import contents  # slow to import: done while ptxas runs

    refused: dict[str, str] = {}
    contents_by_name: dict[str, Content] = {}
    for assembler, words in zip(at_work, compiled, strict=True):
        refused |= words
        if assembler.cubin.is_file():
            cubin_arch, kernels_made = contents(assembler.cubin)
            _check_arch(assembler, cubin_arch)
            contents_by_name |= kernels_made
    if not contents_by_name and refused:
        _check_refusing(at_work[0], next(iter(refused.values())))
    if sum(assembler.stumbles for assembler in at_work) > MOST_STUMBLES:
        raise at_work[0].unfit(next(iter(refused.values())))
    left_out = [
        k.name for part in kernels_by_part for k in part if k.name not in refused and k.name not in contents_by_name
    ]
    if left_out:
        ptxas, name = at_work[0].tools.ptxas, at_work[0].row.name
        raise EnvironmentUnfitError(f"{ptxas} left {', '.join(left_out[:3])} out of its cubin for {name}.")
    tools, row = at_work[0].tools, at_work[0].row
    return disassemble(tools, row, contents_by_name) if contents_by_name else {}, refused


def _check_refusing(assembler: Assembler, words: str) -> None:
    """If ptxas takes no kernel: EnvironmentUnfitError unless it takes an empty one, and for the right arch."""
    from tcprobe.sass.elf import contents

    if not assembler.assemble_nothing():
        raise assembler.unfit(words)
    _check_arch(assembler, contents(assembler.cubin)[0])


def _check_arch(assembler: Assembler, cubin_arch: str) -> None:
    ptxas, arch_asked = assembler.tools.ptxas, assembler.row.name
    if cubin_arch != arch_asked:
        raise EnvironmentUnfitError(
            f"{ptxas} was asked for {arch_asked} and assembled for {cubin_arch}. Choose another toolkit with --cuda."
        )


def disassemble(tools: Toolchain, arch: Arch, contents: dict[str, Content]) -> dict[str, Code]:
    """The code of all kernels for an arch; kernels with the same bytes and parameters share it."""
    distinct = dict.fromkeys(contents.values())
    lines = listing(tools, arch, b"".join(kernel.raw for kernel in distinct))
    codes, start = {}, 0
    for kernel in distinct:
        end = start + len(kernel.raw)
        codes[kernel] = _code(lines[start // 16 : end // 16], start, kernel)
        start = end
    return {name: codes[kernel] for name, kernel in contents.items()}


def listing(tools: Toolchain, arch: Arch, raw: bytes) -> list[ListedInstruction]:
    """(address, text) of every instruction of raw code; EnvironmentUnfitError unless all are printed.

    nvdisasm silently leaves out instructions that are newer than it; if they are few, their text is UNPRINTED.
    """
    texts, words, _ = printed(tools, arch.name, raw)
    places = range(0, len(raw), 16)
    missing = sum(place not in texts for place in places)
    if words or missing > len(places) * (1 - LEAST_PRINTED) or len(texts) + missing != len(places):
        raise EnvironmentUnfitError(
            f"{tools.nvdisasm} does not print the code of {arch.name} ({len(texts)} of {len(places)} instructions): "
            f"{words or 'it printed nothing'}."
        )
    return [(address, texts.get(address, UNPRINTED)) for address in places]


def _code(listed_lines: Sequence[ListedInstruction], start: int, content: Content) -> Code:
    instructions, unread = {}, {}
    for address, text in listed_lines:
        try:
            instructions[address] = exact(text)
        except UnreadError as error:
            unread[address] = f"{error}, in `{text}`"
    opcodes = tuple(opcode_of(text) for _, text in listed_lines)
    return Code(
        instructions,
        start,
        content.offset,
        content.size,
        unread,
        opcodes,
        content.raw,
        content.routines,
        tuple(text for _, text in listed_lines),
    )


LINE_BYTES = 16
_CLOCK = "SR_CLOCKLO"


def timed_codes(kernels: Mapping[str, bytes], arch: Arch, tools: Toolchain | None = None) -> dict[str, TimedCode]:
    """What is timed in each kernel of raw machine code, by name; nvdisasm runs once."""
    lines = listing(tools or disassembler(), arch, b"".join(kernels.values()))
    codes, start = {}, 0
    for name, raw in kernels.items():
        end = start + len(raw) // LINE_BYTES
        codes[name] = timed_code(lines[start:end])
        start = end
    return codes


def timed_code(listed_lines: Sequence[ListedInstruction]) -> TimedCode:
    """The timed opcodes in a kernel's lines; the loop is empty if there is none."""
    forms = [(address, decode(text)) for address, text in listed_lines]
    readings = [address for address, form in forms if any(o.text.startswith(_CLOCK) for o in form.operands)]
    if len(readings) < 2:
        return TimedCode((), ())
    between = [(address, form) for address, form in forms if readings[0] < address < readings[-1]]
    branches = [(o.value, address) for address, form in between if form.mnemonic == "BRA" for o in form.operands[-1:]]
    loops = [(target, address) for target, address in branches if readings[0] < target < address]
    first, last = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, -1))
    inside = [form for address, form in between if first <= address <= last]
    beside = tuple(_opcode(form) for address, form in between if not first <= address <= last)
    return TimedCode(tuple(map(_opcode, inside)), beside, register_reads(inside))


def register_reads(forms: Sequence[Form]) -> tuple[int, int]:
    """How many registers of even and of odd numbers instructions of 32 bits read, one after the other.

    One that an instruction names twice is read once; one that the instruction before keeps for its place (`.reuse`)
    is not read again.
    """
    counts, kept = [0, 0], dict[int, int]()
    for form in forms:
        if form.guard or not (form.opcode == "IMAD" or opcode(form.opcode).modelled == "banks"):
            kept = {}
            continue
        read = [(place, o) for place, o in enumerate(form.operands[1:]) if o.kind == "R" and o.first >= 0]
        fresh = {o.first for place, o in read if kept.get(place) != o.first}
        for register in fresh:
            counts[register % 2] += 1
        kept = {place: o.first for place, o in read if o.reuse}
    return counts[0], counts[1]


def _opcode(form: Form) -> str:
    kinds = [(o.kind, o.first) for o in form.operands[:2]]
    without_effect = form.mnemonic.endswith("GMMA") and kinds == [("R", -1), ("descriptor", -1)]
    return sys.intern(opcode_of(form.text) + ("->RZ" if without_effect else ""))
