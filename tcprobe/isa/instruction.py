"""Instruction: one PTX form with its operands; what rows of any family amount to.

>>> from tcprobe.isa.names import resolve
>>> row = resolve("mma.m16n8k16.row.col.f32.f16.f16.f32").instruction
>>> row.name
'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32'
>>> [(f.operand, f.rows, f.cols, f.registers, f.elements) for f in row.fragments]
[('a', 16, 16, 4, 8), ('b', 16, 8, 2, 4), ('c', 16, 8, 4, 4), ('d', 16, 8, 4, 4)]

A row that contradicts itself raises RowError. What a sparse multiply stores of A, and the tensor-core opcodes that a
native multiply becomes:

>>> from tcprobe.isa import inventory
>>> rule = sparsity(inventory.fragment("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e"))
>>> rule.k(stored=5, index=3)
11
>>> row = inventory.instructions()["mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"]
>>> is_native(row, ["QMMA.16832.F32.E4M3.E4M3"]), is_native(row, ["HMMA.16816.F32", "F2FP.F16.E4M3.UNPACK_B"])
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from tcprobe.errors import RowError
from tcprobe.isa.arch import Arch, Target
from tcprobe.isa.fragment import Fragment, Shape, check_copies
from tcprobe.isa.opcodes import of_kind
from tcprobe.isa.operand import Operand, Place, Role

# every form has these qualifiers, so ids leave them out
IMPLIED = {"sync", "aligned"}


class Definition(NamedTuple):
    """The load or store that defines a fragment which several multiplies share: ids, and its PTX name."""

    id: str
    experiment: str
    instruction: str


def id_of(name: str) -> str:
    """`name` without the qualifiers that every form has."""
    return ".".join(part for part in name.split(".") if part not in IMPLIED)


@dataclass(frozen=True)
class Instruction:
    """`name` is PTX's; `operands` stand in PTX's order (d, a, b, c for a multiply).

    `threads` execute it together: 32, or 128 for a warpgroup. `products` counts independent products per warp.
    `bit_op` and `kind` are PTX's qualifiers of those names. `definitions` has, by operand, what defines a fragment that
    is not the instruction's own. Where one form stands for several spellings, `name` has PTX's braces for what may vary
    or be left out, and `stated` the values; `called` is its id where the name does not give one.
    """

    family: str
    name: str
    shape: Shape
    operands: tuple[Operand, ...]
    target: Target
    threads: int = 32
    products: int = 1
    bit_op: Literal["xor", "and"] | None = None
    kind: str | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict, hash=False, compare=False)
    stated: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict, hash=False, compare=False)
    called: str = ""

    def __post_init__(self) -> None:
        names = {operand.name for operand in self.operands}
        if len(names) < len(self.operands):
            listed = ", ".join(operand.name for operand in self.operands)
            raise RowError(f"{self.name}: operands {listed}; each needs its own name.")
        for operand in self.operands:
            if operand.whole:
                count = operand.rows * operand.cols * self.products
                check_copies((self.name, operand.name), self.threads * operand.elements, count)

    @cached_property
    def id(self) -> str:
        """`name` without the qualifiers that every form has, or what the form is called."""
        return self.called or id_of(self.name)

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The operands in registers, by name: a, b, c, d, ..."""
        made = []
        for operand in sorted(self.operands, key=lambda o: o.name):
            if operand.place is Place.REGISTERS:
                shared = self.definitions.get(operand.name)
                own = shared or Definition(f"{self.id}.{operand.name}", self.id, self.name)
                fragment = Fragment(
                    **{name: getattr(operand, name) for name in Operand.__dataclass_fields__},
                    id=own.id,
                    experiment=own.experiment,
                    instruction=own.instruction,
                    family=self.family,
                    shape=self.shape,
                    target=self.target,
                    threads=self.threads,
                    products=self.products,
                    shared=shared is not None,
                )
                made.append(fragment)
        return tuple(made)

    @cached_property
    def _by_name(self) -> dict[str, Fragment]:
        return {fragment.operand: fragment for fragment in self.fragments}

    def fragment(self, operand: str) -> Fragment:
        """The fragment of an operand; KeyError if it has none."""
        return self._by_name[operand]

    def of_role(self, *roles: Role) -> tuple[Fragment, ...]:
        """The fragments with one of some roles, by name."""
        if "fragments" not in self.__dict__ and not any(operand.role in roles for operand in self.operands):
            return ()  # without making the others
        return tuple(fragment for fragment in self.fragments if fragment.role in roles)

    @cached_property
    def described(self) -> tuple[SharedOperand, ...]:
        """The factors in shared memory, behind descriptors: a_smem, b_smem."""
        return tuple(
            SharedOperand(f"{self.id}.{operand.name}", self, operand) for operand in self.operands if operand.majors
        )

    @property
    def multiplies(self) -> bool:
        """Whether it is a multiply, wherever its factors are; else it moves a matrix."""
        return any(operand.role is Role.FACTOR for operand in self.operands)

    @property
    def elsewhere(self) -> tuple[Operand, ...]:
        """Matrices that are in no register: in shared or tensor memory."""
        return tuple(o for o in self.operands if o.place in (Place.SHARED, Place.TENSOR_MEMORY))

    @property
    def unprobed(self) -> str | None:
        """Why there is nothing of it to measure but places in tensor memory, in words; None where there is."""
        remote = any(operand.place is Place.TENSOR_MEMORY for operand in self.operands)
        if not remote or self.fragments:
            return None
        if not any(operand.role in (Role.FACTOR, Role.SOURCE) for operand in self.operands):
            return "tcprobe has no probe for it"
        return "tcprobe measures where its operands are in tensor memory, and nothing else of it"

    @property
    def named_apart(self) -> bool:
        """Whether its name says which form it is: K = 96 of tcgen05.mma is in a descriptor, not in the name."""
        return "tables" not in self.stated

    @property
    def multiplies_registers(self) -> bool:
        """Whether it is a multiply all of whose matrices are in registers, so that there is a table of each."""
        return self.multiplies and not self.elsewhere

    @property
    def conventional(self) -> bool:
        """Whether row, column and k numbers are a convention: neither a load, a store nor an address anchors them, in
        registers, shared or tensor memory.
        """
        return not self.of_role(Role.ADDRESS) and not self.elsewhere

    @property
    def scales(self) -> tuple[Fragment, ...]:
        """The operands of scale factors, by name."""
        return self.of_role(Role.SCALE)

    @property
    def factors(self) -> tuple[Fragment, ...]:
        """What is multiplied: A and B, as far as they are in registers."""
        return self.of_role(Role.FACTOR)

    @property
    def given(self) -> tuple[Fragment, ...]:
        """What goes in: all fragments but the result."""
        return tuple(fragment for fragment in self.fragments if fragment.role is not Role.RESULT)

    @property
    def spelled(self) -> tuple[Fragment, ...]:
        """The fragments in the order in which PTX writes them."""
        return tuple(self._by_name[operand.name] for operand in self.operands if operand.name in self._by_name)

    @property
    def metadata(self) -> Fragment | None:
        """The operand that says which columns of A are stored; None where all are."""
        return next(iter(self.of_role(Role.METADATA)), None)

    @property
    def stored(self) -> int:
        """Columns of A that are stored: k, or half of it where there is metadata."""
        return self.shape.k // 2 if self.metadata else self.shape.k

    @property
    def triples(self) -> int:
        """Products of two elements that it forms."""
        return self.shape.m * self.shape.n * self.stored * self.products

    def type(self, operand: str) -> str:
        """Element type of an operand."""
        return next(o.type for o in self.operands if o.name == operand)


class SharedOperand(NamedTuple):
    """A factor of `instruction` in shared memory, behind a descriptor: `held.rows` x `held.cols` elements."""

    id: str
    instruction: Instruction
    held: Operand

    @property
    def family(self) -> str:
        """The family of its instruction."""
        return self.instruction.family

    @property
    def target(self) -> Target:
        """The target of its instruction."""
        return self.instruction.target


# Sparsity: which columns of a sparse A are stored, and which of B's rows an index of the metadata picks. A row of A is
# cut into chunks. Of each chunk some units are stored, in the order of k, and an index field for each says where in the
# chunk the unit was. A unit is one element, or two next to each other for 4-bit types. Source: PTX ISA 9.1, section
# 9.7.14.6.1 (sparse matrix storage): 1:2 for tf32, 4:8 in pairs for u4 and s4, else 2:4.
# four bits that hold legal indices, in every order that tells their fields apart; of tf32 the two that are legal
ORDERED_FIELDS = (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)
SINGLE_FIELD = (0x4, 0xE)


class Sparsity(NamedTuple):
    """A chunk stores `fields` units out of `positions`, each unit being `span` elements; a field has `bits` bits."""

    fields: int
    positions: int
    span: int
    bits: int

    @property
    def legal(self) -> tuple[int, ...]:
        """The values of four bits of metadata that PTX allows for ordered metadata, and so everywhere."""
        return ORDERED_FIELDS if self.fields == 2 else SINGLE_FIELD

    def read(self, nibble: int, half: int) -> int:
        """The index in a field: `half` 0 is the low one of four bits. A single field of 4 bits is 0x4 or 0xE."""
        return SINGLE_FIELD.index(nibble) if self.fields == 1 else nibble >> 2 * half & 3

    def chunk(self, stored: int) -> int:
        """The chunk of a stored column."""
        return stored // (self.fields * self.span)

    def k(self, stored: int, index: int) -> int:
        """The column of A that a stored column is under an index: the row of B that it meets."""
        return (self.chunk(stored) * self.positions + index) * self.span + stored % self.span


def sparsity(metadata: Fragment) -> Sparsity:
    """How the metadata of a multiply is to be read."""
    single = metadata.slot_bits == 4
    return Sparsity(1 if single else 2, 2 if single else 4, metadata.span, metadata.slot_bits)


def emulated(instruction: Instruction, device: Arch) -> bool:
    """Whether the compiler emulates a sparse multiply on `device`: what is measured there is the compiler's work too.

    Source: machine code of ptxas 12.9 and 13: for mma.sp, sm_90 and later have no sparse IMMA of 4-bit types, and sm_90
    to sm_110 no sparse QMMA of 8-bit floats. wgmma's sparse QGMMA is an instruction of sm_90.
    """
    if instruction.family != "mma.sp" or device.number < 90:
        return False
    kind = instruction.type("a")
    return kind in ("s4", "u4") or (kind in ("e4m3", "e5m2") and device.number < 120)


# what a tensor-core opcode of the type of A looks like
NATIVE_OPCODES = {
    "f16": r"HG?MMA\.(?!.*(BF16|TF32))",
    "bf16": r"HG?MMA\..*BF16",
    "tf32": r"HG?MMA\..*TF32",
    "f64": r"DMMA",
    **dict.fromkeys(("s8", "u8"), r"IG?MMA\..*[SU]8"),
    **dict.fromkeys(("s4", "u4"), r"IMMA\..*[SU]4"),
    "b1": r"BG?MMA",
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), r"QG?MMA"),
}
# the same where the kind decides
KIND_OPCODES = {
    **dict.fromkeys(("f16", "tf32"), r"UTCHMMA"),
    "i8": r"UTCIMMA",
    **dict.fromkeys(("f8f6f4", "mxf8f6f4"), r"(UTC)?QMMA"),
    **dict.fromkeys(("mxf4", "mxf4nvf4"), r"(UTC)?OMMA"),
}


def is_native(instruction: Instruction, opcodes: Collection[str]) -> bool:
    """Whether the tensor cores do a multiply in its own type, by the opcodes that it becomes."""
    own = KIND_OPCODES.get(instruction.kind or "") or NATIVE_OPCODES[instruction.type("a")]
    pattern = own + (rf"\..*{instruction.bit_op.upper()}" if instruction.bit_op else "")
    return bool(opcodes) and all(re.match(pattern, opcode) for opcode in opcodes)


def tensor_opcodes(opcodes: Collection[str]) -> list[str]:
    """Those of some opcodes that the tensor cores do."""
    return [opcode for opcode in opcodes if opcode.split(".")[0] in of_kind("multiply")]
