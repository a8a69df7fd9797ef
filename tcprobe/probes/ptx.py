"""PTX of probe kernels, and the Launch that carries one to a backend.

All kernels have the same frame: their parameters are pointers and a leading dimension; block numbers select input and
output images. `op` of a kernel says what it does, so that the emulator, which runs no PTX, can do the same.

>>> from tcprobe.probes import experiments
>>> from tcprobe.probes.experiment import kernels
>>> [kernel] = kernels(experiments()["movmatrix.m8n8.trans.b16"])
>>> kernel.name, kernel.target.name, "movmatrix.sync.aligned.m8n8.trans.b16" in kernel.text
('movmatrix_m8n8_trans_b16', 'sm_75', True)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Arch, Target, version
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.descriptor import Descriptor
from tcprobe.layout.table import Table
from tcprobe.system.children import one_line

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap


POISON = 0xA5
MORE = {"f": 1, "a": 2}  # by suffix: such a target has all that the target without suffix, or with a lesser one, has
# registers that every kernel sets from special registers
SPECIAL = (
    ("lane", "tid.x"),
    ("x", "ctaid.x"),
    ("y", "ctaid.y"),
    ("z", "ctaid.z"),
    ("nx", "nctaid.x"),
    ("ny", "nctaid.y"),
)


class EmulatedCore(Protocol):
    """What an emulated tensor core is made of: the layouts of fragments, and where other operands are."""

    def table(self, fragment: Fragment) -> Table:
        """The layout of a fragment."""

    def read(self, fragment: Fragment) -> Table:
        """The layout of a fragment, restricted to the slots that a multiply reads."""

    def behind(self, operand: SharedOperand, descriptor: Descriptor, major: str) -> Ints:
        """The bit offset, from the start of shared memory, of each element of an operand behind a descriptor."""

    def in_tensor_memory(self, instruction: Instruction, operand: str, described: Any) -> Ints:
        """The places of an operand in tensor memory, as (CTA, lane, bit from its address on): (rows, cols, places, 3).

        `described` has the fields of a multiply's descriptors, or the multicast of a copy.
        """


class Op(Protocol):
    """What a kernel does, for a backend without PTX. `from_code`: its machine code shows all of that."""

    @property
    def from_code(self) -> bool: ...

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """The output of the launch on a tensor core with these layouts."""


@dataclass(frozen=True)
class FormOp:
    """What the ops of kernels that test one instruction share: its machine code does not show what it does."""

    instruction: Instruction
    from_code = False


@dataclass(frozen=True)
class NotEmulated:
    """The op of a kernel that an emulator cannot stand in for; `why` is said."""

    why: str
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Raises ProbeError."""
        raise ProbeError(f"{launch.kernel.name}: {self.why}.")


WORD_BYTES = 16  # of an instruction of machine code


class Recoding(NamedTuple):
    """Machine code in place of what the compiler wrote: the nth instruction that has `mark` among its bits `of` gets
    the bits `value` where `mask` has ones, of the nth (mask, value) of `words`; of one alone all get it.
    """

    mark: int
    of: int
    words: tuple[tuple[int, int], ...]

    def applied(self, raw: bytes) -> bytes:
        """The code with other instructions; unchanged where it has another number of marks."""
        code = [int.from_bytes(raw[at : at + WORD_BYTES], "little") for at in range(0, len(raw), WORD_BYTES)]
        marked = [at for at, word in enumerate(code) if word & self.of == self.mark]
        if len(self.words) not in (1, len(marked)):
            return raw
        for at, (mask, value) in zip(marked, cycle(self.words), strict=False):
            code[at] = code[at] & ~mask | value
        return b"".join(word.to_bytes(WORD_BYTES, "little") for word in code)


@dataclass(frozen=True)
class Kernel:
    """One entry point: `text` without the module's header, and what it needs from the compiler.

    `optimised`: its loop is timed, so the compiler must optimise it; other probes run for microseconds. `read`: the
    machine code of the loop is read. `recodings`: what no PTX becomes is written into the code before it runs.
    """

    name: str
    op: Op
    text: str
    target: Target
    optimised: bool = False
    read: bool = False
    recodings: tuple[Recoding, ...] = ()

    def recoded(self, raw: bytes) -> bytes:
        """Its machine code with what no PTX becomes."""
        for recoding in self.recodings:
            raw = recoding.applied(raw)
        return raw

    @property
    def sha256(self) -> str:
        """Hash of the text, 64 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Launch:
    """One run of a kernel.

    `inputs` are uint8 arrays of shape (images, bytes); `ldm` is the leading dimension. The backend fills the output
    with POISON first and returns it as uint8 of `output_bytes`. `maps` are encoded by the driver and passed after the
    inputs; they describe tensors in the first input, or in the output if `maps_output`.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    inputs: tuple[Bytes, ...]
    ldm: int
    output_bytes: int
    threads: int = WARP
    shared_bytes: int = 0
    maps: tuple[TensorMap, ...] = ()
    maps_output: bool = False


def module(kernels: Sequence[Kernel], device: Arch) -> str:
    """One PTX module of all kernels, with the least version and target that allow them on `device`.

    A kernel that the PTX ISA does not allow on `device` is compiled for it nevertheless: the compiler must refuse it
    itself.
    """
    options = [k.target.on(device) or (device.name, max(device.ptx, k.target.ptx, key=version)) for k in kernels]
    ptx = max((ptx for _, ptx in options), key=version)
    target = max((target for target, _ in options), key=lambda t: (MORE.get(t[-1], 0), int(re.sub(r"\D", "", t))))
    return f".version {ptx}\n.target {target}\n.address_size 64\n\n" + "\n".join(k.text for k in kernels)


def entry(
    name: str, pointers: Sequence[str], registers: Sequence[str], ptx_lines: Sequence[str], directives: str = ""
) -> str:
    """A kernel in the common frame. `ptx_lines` may use %lane, %x, %y, %z (block), %nx, %ny, %ldm and each %pointer."""
    params = ", ".join([*(f".param .u64 p_{p}" for p in pointers), ".param .u32 p_ldm"])
    lines = [
        ".reg .u32 %lane, %x, %y, %z, %nx, %ny, %ldm, %image;",
        f".reg .u64 {', '.join('%' + p for p in pointers)};",
        *registers,
        *(line for p in pointers for line in (f"ld.param.u64 %{p}, [p_{p}];", f"cvta.to.global.u64 %{p}, %{p};")),
        "ld.param.u32 %ldm, [p_ldm];",
        *(f"mov.u32 %{register}, %{special};" for register, special in SPECIAL),
        *ptx_lines,
        "ret;",
    ]
    head = f".visible .entry {name}({params}){directives and ' ' + directives}"
    return f"{head}\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def identifier(text: str) -> str:
    """`text` as a PTX identifier."""
    return re.sub(r"\W+", "_", text)


def declare(prefix: str, fragment: Fragment) -> str:
    """The declaration of a fragment's registers %prefix0, %prefix1, ..."""
    return f".reg .{_kind(fragment)} %{prefix}<{fragment.registers}>;"


def braces(prefix: str, fragment: Fragment) -> str:
    """A fragment's registers as PTX writes an operand."""
    return "{" + ", ".join(f"%{prefix}{j}" for j in range(fragment.registers)) + "}"


def instruction_text(instruction: Instruction, selectors: Mapping[str, int] | None = None) -> str:
    """The instruction with its operands; `selectors` has their numbers by operand, 0 if missing."""
    operands = (operand(f, (selectors or {}).get(f.operand, 0)) for f in instruction.spelled)
    return f"{instruction.name} {', '.join(operands)};"


def operand(fragment: Fragment, selector: int) -> str:
    """A vector in braces; or, if the operand has selectors, one register followed by immediates."""
    if not fragment.selectors:
        return braces(fragment.operand, fragment)
    immediates = ", ".join(map(str, fragment.picked(selector).values()))
    return f"%{fragment.operand}0, {f'{{{immediates}}}' if fragment.picks else immediates}"


def set_to_one(scales: Iterable[Fragment]) -> list[str]:
    """PTX that sets every scale to one, in declared registers."""
    return [f"mov.b32 %{f.operand}0, {f.one * 0x01010101:#x};" for f in scales]


def point(pointer: str, image: str, fragment: Fragment) -> list[str]:
    """PTX that moves `pointer` to this thread's registers in image number `image`."""
    return [
        f"mad.lo.u32 %image, {image}, {fragment.threads}, %lane;",
        f"mad.wide.u32 %{pointer}, %image, {thread_bytes(fragment)}, %{pointer};",
    ]


def load(pointer: str, prefix: str, fragment: Fragment) -> list[str]:
    """PTX that loads a fragment's registers from `pointer`, up to 16 bytes at a time."""
    moves = _moves(pointer, prefix, fragment)
    return [f"ld.global{modifiers} {registers}, {memory};" for modifiers, registers, memory in moves]


def load_images(fragments: Mapping[str, Fragment], image_of: Mapping[str, str]) -> list[str]:
    """PTX that loads the registers of operands, each from the pointer of its name, by the number of its image."""
    parts = ((*point(o, image, fragments[o]), *load(o, o, fragments[o])) for o, image in image_of.items())
    return [line for part in parts for line in part]


def store(pointer: str, prefix: str, fragment: Fragment) -> list[str]:
    """PTX that stores a fragment's registers to `pointer`, up to 16 bytes at a time."""
    moves = _moves(pointer, prefix, fragment)
    return [f"st.global{modifiers} {memory}, {registers};" for modifiers, registers, memory in moves]


def _moves(pointer: str, prefix: str, fragment: Fragment) -> Iterator[tuple[str, str, str]]:
    """(modifiers, registers, memory) of each load or store."""
    step = fragment.register_bits // 8
    width = gcd(fragment.registers, 16 // step)
    modifiers = (f".v{width}." if width > 1 else ".") + _kind(fragment)
    for first in range(0, fragment.registers, width):
        names = ", ".join(f"%{prefix}{j}" for j in range(first, first + width))
        yield modifiers, f"{{{names}}}" if width > 1 else names, f"[%{pointer}+{first * step}]"


def thread_bytes(fragment: Fragment) -> int:
    """Bytes of one thread's registers."""
    return fragment.registers * fragment.register_bits // 8


def _kind(fragment: Fragment) -> str:
    return fragment.type if fragment.type in ("f32", "f64") else f"b{fragment.register_bits}"


_LINE = re.compile(r"line\s+([0-9]{1,9})\s*;\s*(?:error|fatal)\s*:\s*(.*)", re.IGNORECASE)
HEADER_LINES = 4


def errors_by_line(log: str) -> dict[int, str]:
    """The first error on each line, by line number: ptxas and the driver's compiler report all of a module at once.

    >>> errors_by_line("ptxas x, line 7; error   : Feature '.kind::f8f6f4' not supported on .target 'sm_90'")
    {7: "Feature '.kind::f8f6f4' not supported on .target 'sm_90'"}
    """
    first_errors: dict[int, str] = {}
    for number, words in _LINE.findall(log):
        first_errors.setdefault(int(number), one_line(words))
    return first_errors


TOO_NEW = "needs PTX "  # how the words begin about a form that is too new for the compiler


def blame(log: str, kernels: Sequence[Kernel]) -> dict[str, str]:
    """The error of each refused kernel, by name. `kernels` must be in the order of the module.

    An error in the header (an unknown `.version` or `.target`) is blamed on the kernels that need the highest PTX
    version.
    """
    blamed: dict[str, str] = {}
    errors = errors_by_line(log)
    first = HEADER_LINES + 1
    for kernel in kernels:
        last = first + kernel.text.count("\n")
        words = next((w for n, w in errors.items() if first <= n <= last), None)
        if words:
            blamed[kernel.name] = words
        first = last + 1
    header = next((w for n, w in errors.items() if n <= HEADER_LINES), None)
    if header and not blamed and kernels:
        highest = max((k.target.ptx for k in kernels), key=version)
        blamed = {k.name: f"{TOO_NEW}{highest}: {header}" for k in kernels if k.target.ptx == highest}
    return blamed
