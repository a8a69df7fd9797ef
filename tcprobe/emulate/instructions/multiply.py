"""mma.sync and mma.sp: fragments of all warps as matrices, by the tables, and their products to the bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.fragments import Places, join, places, split
from tcprobe.emulate.machine import WARP, Machine, Step, Where
from tcprobe.emulate.products import multiply, noted_rule
from tcprobe.emulate.ptx import Immediate, Operand, Statement
from tcprobe.emulate.sparse import meetings, multiply_met
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve


def form_of(statement: Statement) -> Instruction:
    """The form that a name means; refused where the tables have none."""
    name = ".".join(word for word in statement.name.split(".") if word != "satfinite")
    try:
        return resolve(name).instruction
    except UsageError as error:
        raise statement.refused(str(error)[:120]) from error


def words_of(machine: Machine, operand: Operand) -> tuple[Callable[[Where], Any], Any]:
    """(groups of 32 threads, threads, registers) of a fragment's registers, and the type of one."""
    items = machine.items(operand)
    wide = getattr(items[0], "type", "b32") in ("f64", "b64")
    kind: Any = np.dtype(np.uint64 if wide else np.uint32)
    readers = [machine.reader(item, kind) for item in items]

    def read(where: Where) -> Any:
        count = machine.threads[where].size
        made = np.empty((len(readers), count), kind)
        for number, one in enumerate(readers):
            made[number] = one(where)
        return made.T.reshape(-1, WARP, len(readers))

    return read, kind


def _mma(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    if "block_scale" in words:
        return None
    if "sync" not in words or "aligned" not in words:
        raise statement.refused()
    instruction = form_of(statement)
    form, arch = instruction.id, machine.arch
    if any("sp" in word for word in words[:2]):
        return _sparse(statement, machine, instruction)
    types, rule = noted_rule(form, arch, machine.report)
    tables = {name: places(form, name, arch) for name in "abcd" if _has(instruction, name)}
    tables.setdefault("c", tables["d"])
    target, *sources = statement.operands
    check_registers(machine, statement, instruction, dict(zip("dabc", statement.operands[:4], strict=True)))
    reads = [words_of(machine, operand)[0] for operand in sources[:3]]
    bits = [slot_bits(instruction, name) for name in "abc"]
    registers = machine.items(target)
    wide: Any = np.dtype(np.uint64 if getattr(registers[0], "type", "") in ("f64", "b64") else np.uint32)
    writers = [machine.writer(item, wide) for item in registers]
    satfinite, products = "satfinite" in words, instruction.products

    def run(where: Where) -> None:
        a, b, c = (
            apart(tables[name].gather(split(read(where), size)), products)
            for name, read, size in zip("abc", reads, bits, strict=True)
        )
        made = multiply(types, rule, a, b, c, satfinite)
        below = made.reshape(-1, products * made.shape[1], made.shape[2])
        scatter_registers(tables["d"], below, len(writers), wide, where, writers)

    return machine.together(run)


def check_registers(
    machine: Machine, statement: Statement, instruction: Instruction, operands: Mapping[str, Operand]
) -> None:
    """Refuse fragments in more or fewer registers than the form has."""
    for name, operand in operands.items():
        found = len(machine.items(operand))
        wanted = instruction.fragment(name if _has(instruction, name) else "d").registers
        if found != wanted:
            raise statement.refused(f"with {name.upper()} in {found} registers, not {wanted}")


def apart(matrices: Any, products: int) -> Any:
    """(groups, products x rows, cols) as (groups x products, rows, cols)."""
    return matrices.reshape(-1, matrices.shape[1] // products, matrices.shape[2])


def _has(instruction: Instruction, name: str) -> bool:
    return any(fragment.operand == name for fragment in instruction.fragments)


def slot_bits(instruction: Instruction, name: str) -> int:
    """Bits of a slot of a fragment."""
    fragment = instruction.fragment(name if _has(instruction, name) else "d")
    return fragment.slot_bits


def scatter_registers(table: Places, matrix: Any, count: int, wide: Any, where: Where, writers: list[Any]) -> None:
    """A matrix of each group of threads into registers."""
    threads = int(table.threads.max()) + 1
    threads = -(-threads // WARP) * WARP
    slots = count * wide.itemsize // matrix.dtype.itemsize
    held = np.zeros((matrix.shape[0], threads, slots), matrix.dtype)
    table.scatter(held, matrix)
    words = join(held, wide)
    for number, write in enumerate(writers):
        write(where, np.ascontiguousarray(words[:, :, number]).reshape(-1))


def _sparse(statement: Statement, machine: Machine, instruction: Instruction) -> Step:
    """mma.sp: metadata says which lines of B the stored values of A meet."""
    form, arch = instruction.id, machine.arch
    types, rule = noted_rule(form, arch, machine.report)
    target, *sources = statement.operands
    check_registers(machine, statement, instruction, dict(zip("dabce", statement.operands[:5], strict=True)))
    selector = sources[4]
    if not isinstance(selector, Immediate):
        raise statement.refused("with a selector in a register")
    met = meetings(form, selector.value, arch)
    tables = {name: places(form, name, arch) for name in "abcd" if _has(instruction, name)}
    tables.setdefault("c", tables["d"])
    reads = [words_of(machine, operand)[0] for operand in sources[:4]]
    bits = [slot_bits(instruction, name) for name in "abc"]
    writers = [machine.writer(item, np.uint32) for item in machine.items(target)]
    satfinite = "satfinite" in statement.modifiers

    def run(where: Where) -> None:
        a, b, c = (
            tables[name].gather(split(read(where), size))
            for name, read, size in zip("abc", reads[:3], bits, strict=True)
        )
        made = multiply_met(types, rule, (a, b, c), met(reads[3](where), machine.report), satfinite)
        scatter_registers(tables["d"], made, len(writers), np.dtype(np.uint32), where, writers)

    return machine.together(run)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"mma": _mma}
