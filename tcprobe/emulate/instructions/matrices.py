"""ldmatrix, stmatrix, movmatrix: 8 x 8 matrices between shared memory and the registers of a warp, by the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tcprobe.emulate.fragments import places
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.machine import WARP, Machine, Step, Where
from tcprobe.emulate.ptx import Operand, Statement
from tcprobe.emulate.unwritten import mark

ROW = 16  # bytes of a row of a matrix
COUNTS = {"x1": 1, "x2": 2, "x4": 4}


class _Form(NamedTuple):
    """Matrices, the rows of each (of ROW bytes, of which a lane gives the address), and the name of the form."""

    matrices: int
    rows: int
    word: type[np.uint8 | np.uint16]
    name: str

    @property
    def registers(self) -> int:
        """Of a lane."""
        return self.matrices * self.rows * ROW // (4 * WARP)


def _form(statement: Statement) -> _Form:
    words = [word for word in statement.modifiers if word not in ("shared", "shared::cta")]
    count = next((COUNTS[word] for word in words if word in COUNTS), 0)
    turned = ".trans" if "trans" in words else ""
    if count and {"m8n8", "b16", "sync", "aligned"} <= set(words):
        return _Form(count, 8, np.uint16, f"{statement.opcode}.m8n8.x{count}{turned}.shared.b16")
    if (
        count in (1, 2)
        and {"m16n16", "b8", "trans", "sync", "aligned"} <= set(words)
        and statement.opcode == "ldmatrix"
    ):
        return _Form(count, 16, np.uint8, f"ldmatrix.m16n16.x{count}.trans.shared.b8")
    raise statement.refused()


def _registers(statement: Statement, machine: Machine, operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers of an operand: one a matrix."""
    items = machine.items(operand)
    if len(items) != count:
        raise statement.refused(f"with {len(items)} registers")
    return items


def _load(statement: Statement, machine: Machine) -> Step:
    form = _form(statement)
    space = space_of(statement)
    target, source = statement.operands
    registers = _registers(statement, machine, target, form.registers)
    writers = [machine.writer(item, np.uint32) for item in registers]
    address = address_of(machine, source, space)
    table = places(form.name, "d", machine.arch)
    lanes = form.matrices * form.rows

    def run(where: Where) -> None:
        threads = machine.threads[where].reshape(-1, WARP)[:, :lanes]
        at = np.broadcast_to(np.asarray(address(where)), (threads.shape[0] * WARP,)).reshape(-1, WARP)[:, :lanes]
        rows, unwritten = machine.load_marked(space, at.reshape(-1), ROW, threads.reshape(-1))
        matrix = rows.reshape(threads.shape[0], lanes, ROW).view(form.word)
        held = np.zeros((threads.shape[0], WARP, 4 * form.registers), np.uint8).view(form.word)
        table.scatter(held, matrix)
        words = held.view(np.uint32)
        for number, write in enumerate(writers):
            write(where, words[:, :, number].reshape(-1))
        if unwritten is not None:
            wrong = np.repeat(unwritten.reshape(threads.shape[0], lanes)[:, :, None], matrix.shape[2], axis=2)
            held[:] = 0
            table.scatter(held, wrong.astype(form.word))
            marked = held.view(np.uint32) != 0
            mark(machine, registers, [marked[:, :, n].reshape(-1) for n in range(form.registers)], where)

    return machine.together(run)


def _store(statement: Statement, machine: Machine) -> Step:
    count, _, _, form = _form(statement)
    space = space_of(statement)
    target, source = statement.operands
    readers = [machine.reader(item, np.uint32) for item in _registers(statement, machine, source, count)]
    address = address_of(machine, target, space)
    table = places(form, _stored(form), machine.arch)

    def run(where: Where) -> None:
        threads = machine.threads[where].reshape(-1, WARP)
        held = np.empty((*threads.shape, count), np.uint32)
        for number, read in enumerate(readers):
            held[:, :, number] = np.broadcast_to(read(where), (threads.size,)).reshape(threads.shape)
        matrix = np.ascontiguousarray(table.gather(held.view(np.uint16)))
        at = np.broadcast_to(np.asarray(address(where)), (threads.size,)).reshape(threads.shape)[:, : 8 * count]
        machine.store(
            space, at.reshape(-1), matrix.view(np.uint8).reshape(-1, ROW), threads[:, : 8 * count].reshape(-1)
        )

    return machine.together(run)


def _stored(form: str) -> str:
    """The name of the operand that holds what is stored."""
    from tcprobe.isa.names import resolve
    from tcprobe.isa.operand import Role

    return next(f.operand for f in resolve(form).instruction.fragments if f.role is not Role.ADDRESS)


def _move(statement: Statement, machine: Machine) -> Step:
    """movmatrix: a matrix turned."""
    if "trans" not in statement.modifiers or "b16" not in statement.modifiers:
        raise statement.refused()
    write, read = machine.writer(statement.operands[0], np.uint32), machine.reader(statement.operands[1], np.uint32)
    table = places("ldmatrix.m8n8.x1.shared.b16", "d", machine.arch)

    def run(where: Where) -> None:
        count = machine.threads[where].size
        held = np.ascontiguousarray(np.broadcast_to(read(where), (count,))).reshape(-1, WARP, 1).view(np.uint16)
        turned = np.zeros_like(held)
        table.scatter(turned, table.gather(held).transpose(0, 2, 1))
        write(where, turned.view(np.uint32).reshape(-1))

    return machine.together(run)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "ldmatrix": _load,
    "stmatrix": _store,
    "movmatrix": _move,
}
