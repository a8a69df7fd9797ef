"""PTX text of probe kernels, and the Launch that carries one to a backend.

Every kernel has the same frame: pointers and a leading dimension as parameters; block numbers choose the input and
output images. A launch says what the kernel does (`op`), so that a backend without PTX (the emulator) can do the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, Protocol

from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.target import Target, version
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.descriptor import Descriptor
from tcprobe.layout.table import Table

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap

POISON = 0xA5
MORE = {"f": 1, "a": 2}  # by suffix: a target with it has all that the same without it, or with a lesser one, has
ALIGNED = "6.3"  # PTX version from which wmma must be written with .aligned, as these kernels do (PTX ISA 9.7.14.4)
# registers that every kernel sets from special registers
SPECIAL = (
    ("lane", "tid.x"),
    ("x", "ctaid.x"),
    ("y", "ctaid.y"),
    ("z", "ctaid.z"),
    ("nx", "nctaid.x"),
    ("ny", "nctaid.y"),
)


class Tables(Protocol):
    """What an emulated tensor core is made of: by fragment id, which element each slot holds, and which it reads."""

    def table(self, fragment: Fragment) -> Table:
        """The layout of a fragment."""

    def read(self, fragment: Fragment) -> Table:
        """The same for the slots that a multiply takes into account."""

    def behind(self, operand: SharedOperand, descriptor: Descriptor, major: str) -> Ints:
        """The number of the bit, from the start of shared memory, where each element of an operand begins."""

    def in_tensor_memory(self, instruction: Instruction, operand: str, described: Any) -> Ints:
        """By row and column the places of an operand in tensor memory, each a CTA, a lane, and a bit from the operand's
        address on: (rows, cols, places, 3). `described` is what a multiply's descriptors say, or a copy's multicast."""


class Op(Protocol):
    """What a kernel does, for a backend without PTX. `from_code`: its machine code shows all of it."""

    @property
    def from_code(self) -> bool: ...  # noqa: D102

    def emulate(self, launch: Launch, tables: Tables) -> Bytes:
        """What the launch would leave in its output on a tensor core with these layouts."""


@dataclass(frozen=True)
class Kernel:
    """One entry point: its `text` without the module's header, and what it needs from the compiler.

    `optimised`: its loop is timed, so the compiler must do its best; other probes run for microseconds. `read`: the
    machine code of that loop is read.
    """

    name: str
    op: Op
    text: str
    target: Target
    optimised: bool = False
    read: bool = False

    @property
    def sha256(self) -> str:
        """Hash of the text, 64 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Launch:
    """One run of a kernel: grid of blocks, input images, leading dimension, size of the output.

    `inputs` are uint8 arrays of shape (images, bytes). The backend fills the output with POISON first and
    returns it as uint8 of `output_bytes`. `maps` follow the inputs, as the driver encodes them: tensors in the first
    input, or in the output where `maps_output`.
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
    """One PTX module of all kernels, with the least header that allows them on `device`.

    A kernel that the PTX ISA does not allow there is compiled for `device` all the same, so that the
    refusal is the compiler's own.
    """
    options = [k.target.on(device) or (device.name, max(device.ptx, k.target.ptx, key=version)) for k in kernels]
    ptx = max((ptx for _, ptx in options), key=version)
    target = max((target for target, _ in options), key=lambda t: (MORE.get(t[-1], 0), _number(t)))
    return f".version {ptx}\n.target {target}\n.address_size 64\n\n" + "\n".join(k.text for k in kernels)


def entry(
    name: str, pointers: Sequence[str], registers: Sequence[str], body: Sequence[str], directives: str = ""
) -> str:
    """The frame of a kernel. `body` may use %lane, %x, %y, %z (block), %nx, %ny, %ldm and one %pointer each."""
    params = ", ".join([*(f".param .u64 p_{p}" for p in pointers), ".param .u32 p_ldm"])
    lines = [
        ".reg .u32 %lane, %x, %y, %z, %nx, %ny, %ldm, %image;",
        f".reg .u64 {', '.join('%' + p for p in pointers)};",
        *registers,
        *(line for p in pointers for line in (f"ld.param.u64 %{p}, [p_{p}];", f"cvta.to.global.u64 %{p}, %{p};")),
        "ld.param.u32 %ldm, [p_ldm];",
        *(f"mov.u32 %{register}, %{special};" for register, special in SPECIAL),
        *body,
        "ret;",
    ]
    head = f".visible .entry {name}({params}){directives and ' ' + directives}"
    return f"{head}\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def identifier(text: str) -> str:
    """`text` as a PTX identifier."""
    return re.sub(r"\W+", "_", text)


def declare(prefix: str, fragment: Fragment) -> str:
    """The registers %prefix0, ... of a fragment."""
    return f".reg .{_kind(fragment)} %{prefix}<{fragment.registers}>;"


def braces(prefix: str, fragment: Fragment) -> str:
    """The registers as PTX writes an operand."""
    return "{" + ", ".join(f"%{prefix}{j}" for j in range(fragment.registers)) + "}"


def written(instruction: Instruction, selectors: Mapping[str, int] | None = None) -> str:
    """The instruction with its operands; `selectors` are their numbers by operand, 0 without one."""
    operands = (operand(f, (selectors or {}).get(f.operand, 0)) for f in instruction.spelled)
    return f"{instruction.name} {', '.join(operands)};"


def operand(fragment: Fragment, selector: int) -> str:
    """A vector in braces; what a selector selects from is one register without, before its immediates."""
    if not fragment.selectors:
        return braces(fragment.operand, fragment)
    immediates = ", ".join(map(str, fragment.held.picked(selector).values()))
    return f"%{fragment.operand}0, {f'{{{immediates}}}' if fragment.held.picks else immediates}"


def set_to_one(scales: Iterable[Fragment]) -> list[str]:
    """Every scale one, in declared registers."""
    return [f"mov.b32 %{f.operand}0, {f.one * 0x01010101:#x};" for f in scales]


def point(pointer: str, image: str, fragment: Fragment) -> list[str]:
    """Move `pointer` to this lane's registers in register image number `image`."""
    return [
        f"mad.lo.u32 %image, {image}, 32, %lane;",
        f"mad.wide.u32 %{pointer}, %image, {thread_bytes(fragment)}, %{pointer};",
    ]


def load(pointer: str, prefix: str, fragment: Fragment) -> list[str]:
    """Load a fragment's registers from `pointer` on, raw, up to 16 bytes at a time."""
    moves = _moves(pointer, prefix, fragment)
    return [f"ld.global{modifiers} {registers}, {memory};" for modifiers, registers, memory in moves]


def store(pointer: str, prefix: str, fragment: Fragment) -> list[str]:
    """Store a fragment's registers from `pointer` on, as `load`."""
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
    if fragment.type in ("f32", "f64"):
        return fragment.type
    return f"b{fragment.register_bits}"


def _number(target: str) -> int:
    return int("".join(filter(str.isdigit, target)))
