"""mma.sync and mma.sp with scales: which lane's word has a scale by PTX's text, products exact or rounded once.

Written from PTX ISA 9.1, section 9.7.14.3: thread-id-a names two lanes of each four, the first of which has the scales
of the row of that number, the second those of 8 rows below; thread-id-b names one of four, which has those of a column.
byte-id is the first of the bytes that are scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tcprobe.emulate import tensor_products
from tcprobe.emulate.fragments import places, split
from tcprobe.emulate.instructions.multiply import check_registers, form_of, scatter_registers, slot_bits, words_of
from tcprobe.emulate.machine import WARP, Machine, Step, Where
from tcprobe.emulate.ptx import Immediate, Operand, Statement, Vector
from tcprobe.emulate.sparse import meetings
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Floats, Ints

ROWS, COLS = 16, 8
Met: TypeAlias = Callable[[Where], "Ints | None"]  # (groups, m, stored k) lines of B


def _mma(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    if "block_scale" not in words:
        return None
    instruction = form_of(statement)
    target, a, b, c, *of_scales = statement.operands
    met: Met = lambda where: None  # noqa: E731
    if instruction.metadata:
        e, selector, *of_scales = of_scales
        met = _meetings(machine, statement, instruction, (e, selector))
    if len(of_scales) != 4:
        raise statement.refused(f"with {len(statement.operands)} operands")
    check_registers(machine, statement, instruction, {"d": target, "a": a, "b": b, "c": c})
    tables = {name: places(instruction.id, name, machine.arch) for name in "abd"}
    reads = {name: words_of(machine, operand)[0] for name, operand in zip("abc", (a, b, c), strict=True)}
    kinds = {name: instruction.fragment(name).type for name in "ab"}
    scale = instruction.fragment("scale_a").type
    many = instruction.fragment("scale_a").cols
    (byte_a, thread_a), (byte_b, thread_b) = (_selected(statement, operand) for operand in (of_scales[1], of_scales[3]))
    row, col = np.arange(ROWS), np.arange(COLS)
    lanes = (4 * (row % 8) + 2 * thread_a + row // 8, 4 * col + thread_b)
    scale_reads = [machine.reader(operand, np.uint32) for operand in (of_scales[0], of_scales[2])]
    writers = [machine.writer(item, np.uint32) for item in machine.items(target)]
    bits = {name: slot_bits(instruction, name) for name in "ab"}

    def factor(name: str, where: Where) -> Floats:
        patterns = tables[name].gather(split(reads[name](where), bits[name]))
        if kinds[name] == "e2m1" and bits[name] == 8:
            patterns = patterns >> 2
        return tensor_products.numbers(kinds[name], patterns & ((1 << tensor_products.WIDTHS.get(kinds[name], 8)) - 1))

    def scales(which: int, first: int, where: Where) -> Floats:
        held = np.broadcast_to(scale_reads[which](where), machine.threads[where].shape).reshape(-1, WARP)
        shifts = 8 * (first + np.arange(many, dtype=np.uint32))
        patterns = held[:, lanes[which], None] >> shifts & np.uint32(255)
        return tensor_products.numbers(scale, patterns)

    def run(where: Where) -> None:
        left, right = factor("a", where), factor("b", where)
        left = left * np.repeat(scales(0, byte_a, where), left.shape[2] // many, axis=2)
        right = right * np.repeat(scales(1, byte_b, where), right.shape[1] // many, axis=2).transpose(0, 2, 1)
        lines = met(where)
        held = tables["d"].gather(split(reads["c"](where), 32)).view(np.float32).astype(np.float64)
        made = np.empty_like(held)
        for group in range(held.shape[0]):
            made[group], exact = tensor_products.multiply(
                left[group], right[group], held[group], None if lines is None else lines[group]
            )
            if not exact:
                machine.report.note("sums of mma with scales that are not exact are rounded once; none were measured")
        scatter_registers(
            tables["d"], made.astype(np.float32).view(np.uint32), len(writers), np.dtype(np.uint32), where, writers
        )

    return machine.together(run)


def _meetings(
    machine: Machine, statement: Statement, instruction: Instruction, operands: tuple[Operand, Operand]
) -> Met:
    """The lines of B that the elements of a sparse A meet, by metadata and its selector."""
    e, selector = operands
    if not isinstance(selector, Immediate):
        raise statement.refused("with a selector in a register")
    read, met = words_of(machine, e)[0], meetings(instruction.id, selector.value, machine.arch)
    return lambda where: met(read(where), machine.report)


def _selected(statement: Statement, operand: Operand) -> tuple[int, int]:
    """{byte-id, thread-id}."""
    items: Any = operand.items if isinstance(operand, Vector) else ()
    if len(items) != 2 or not all(isinstance(item, Immediate) for item in items):
        raise statement.refused("with selectors of scales that are no numbers in the text")
    return items[0].value, items[1].value


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"mma": _mma}
