"""tcgen05.mma: its operands, from PTX ISA 9.1, section 9.7.16.10.9. tcgen05.shift is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.matrix_words import SCALES, TYPES
from tcprobe.emulate.operands import by_modifier, only, tensor_address
from tcprobe.emulate.ptx import Address, Immediate, Statement, Vector
from tcprobe.emulate.tensor_memory import Issuer
from tcprobe.emulate.tensor_multiply import Form, Operands, issue

SCALES_BLOCK = {"block32": 32, "block16": 16, "scale_vec::1X": 32, "scale_vec::2X": 32, "scale_vec::4X": 16}


def _multiply(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    kind = next((w.removeprefix("kind::") for w in words if w.startswith("kind::")), "")
    if kind not in TYPES:
        raise statement.refused()
    only(statement, "ws", "sp", "block_scale", *SCALES_BLOCK)
    scaled = "block_scale" in words
    if scaled != (kind in SCALES):
        raise statement.refused()
    size = next((SCALES_BLOCK[w] for w in words if w in SCALES_BLOCK), 32)
    form = Form(statement, kind, "cta_group::2" in words, "ws" in words, "sp" in words, size if scaled else 0)
    reads, lowered = _reads(machine, statement, form)
    remote = isinstance(statement.operands[1], Address)
    words_of_lanes = [name for name in reads if name.startswith("lanes")]

    def run(where: Where) -> None:
        threads = machine.threads[where]
        values = {name: np.broadcast_to(np.asarray(read(where)), threads.shape) for name, read in reads.items()}
        for number, thread in enumerate(threads):
            one = {name: int(value[number]) for name, value in values.items()}
            operands = Operands(
                one["d"],
                one["a"],
                one["b"],
                one["instruction"],
                one.get("metadata", 0),
                [one[name] for name in ("scale_a", "scale_b") if name in one],
                bool(one.get("adds", True)),
                lowered,
                remote,
                _unwritten(statement, [one[name] for name in words_of_lanes]),
                one.get("zeros", 0),
            )
            issue(Issuer(machine, statement, int(thread)), form, operands)

    return run


def _reads(machine: Machine, statement: Statement, form: Form) -> tuple[dict[str, Callable[[Where], Any]], int]:
    """What reads each operand, by its name; by which power of two D is divided."""
    d, a, b, *more = statement.operands
    reads: dict[str, Callable[[Where], Any]] = {
        "d": tensor_address(machine, d),
        "a": tensor_address(machine, a) if isinstance(a, Address) else machine.reader(a, np.uint64),
        "b": machine.reader(b, np.uint64),
    }
    if form.sparse:
        reads["metadata"] = tensor_address(machine, more.pop(0))
    reads["instruction"] = machine.reader(more.pop(0), np.uint32)
    for name in ("scale_a", "scale_b") if form.block else ():
        reads[name] = tensor_address(machine, more.pop(0))
    if more and isinstance(more[0], Vector):
        lanes = machine.items(more.pop(0))
        if form.block or form.weight_stationary or len(lanes) != (8 if form.pair else 4):
            raise statement.refused(f"with {len(lanes)} words of lanes that are not written")
        reads |= {f"lanes {number}": machine.reader(item, np.uint32) for number, item in enumerate(lanes)}
    if more:
        reads["adds"] = machine.reader(more.pop(0), np.bool_)
    if more and form.weight_stationary:
        reads["zeros"] = machine.reader(more.pop(0), np.uint64)
    lowered = more.pop(0) if more and form.kind in ("f16", "tf32") else Immediate(0)
    if more or not isinstance(lowered, Immediate):
        raise statement.refused(f"with {len(statement.operands)} operands")
    return reads, lowered.value


def _unwritten(statement: Statement, words: list[int]) -> int:
    """A bit for each lane of both CTAs."""
    if words[4:] and words[:4] != words[4:]:
        raise statement.refused(
            "with other lanes of each CTA that are not written: no source says which words are whose"
        )
    return sum(word << 32 * number for number, word in enumerate(words))


def _shift(statement: Statement, machine: Machine) -> Step:
    raise statement.refused("no source says which way rows go")


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "tcgen05": by_modifier(
        {
            "mma": _multiply,
            "shift": _shift,
        }
    )
}
