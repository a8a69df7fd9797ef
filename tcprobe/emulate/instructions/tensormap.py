"""tensormap.replace and its copies: tensor maps that a kernel makes itself, in shared memory.

Numbers of types and modes are those of PTX ISA 9.1, section 9.7.9.28 (tensormap.replace), which are not the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.boxes import MAP_BYTES, MAP_MARK
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.operands import NUMPY
from tcprobe.emulate.ptx import Immediate, Statement

# the driver's number of an element type by PTX's: f32.ftz, f64 and bf16 stand in another order
TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12)
CHUNK = 16
WORD_OF = {"global_dim": 4, "box_dim": 17, "element_stride": 22}  # the first word of a list, as `encode_map` has it
BYTE_OF = {"elemtype": 4, "swizzle_mode": 5, "interleave_layout": 6, "fill_mode": 7}
STRIDES, ADDRESS = 9, 8  # the word where strides begin; the byte where the address is


def _tensormap(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    if words[0] == "replace":
        return _replace(statement, machine)
    if words[0] == "cp_fenceproxy":
        return _copy(statement, machine)
    raise statement.refused()


def _replace(statement: Statement, machine: Machine) -> Step:
    """One field of a map; only one thread of those that run here at one address makes sense."""
    field = statement.modifiers[2]
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    value = machine.reader(statement.operands[-1], NUMPY[statement.modifiers[-1]])
    ordinal = statement.operands[1] if len(statement.operands) == 3 else Immediate(0)
    if not isinstance(ordinal, Immediate) or not 0 <= ordinal.value < 5:
        raise statement.refused()
    known = (*WORD_OF, *BYTE_OF, "rank", "global_address", "global_stride")
    if field not in known:
        raise statement.refused(f"with .{field}")
    number = ordinal.value

    def run(where: Where) -> None:
        threads = machine.threads[where]
        numbers = np.broadcast_to(np.asarray(value(where)), threads.shape).astype(np.uint64)
        offset, raw = _encoded(field, number, numbers)
        at = np.broadcast_to(np.asarray(address(where)), threads.shape).astype(np.int64) + offset
        for part in range(raw.shape[1]):
            machine.store(space, at + part, raw[:, part : part + 1], where)

    return run


def _encoded(field: str, number: int, values: Any) -> tuple[int, Any]:
    """The byte where a field begins, and (threads, bytes) of it."""
    if field == "rank":
        return 0, (values.astype(np.uint32) + np.uint32(1 | MAP_MARK)).view(np.uint8).reshape(-1, 4)
    if field in BYTE_OF:
        kinds = np.array(TYPES, np.uint8)
        made = (
            kinds[np.minimum(values, len(TYPES) - 1).astype(np.int64)]
            if field == "elemtype"
            else values.astype(np.uint8)
        )
        return BYTE_OF[field], made.reshape(-1, 1)
    if field == "global_address":
        return ADDRESS, values.view(np.uint8).reshape(-1, 8)
    if field == "global_stride":
        return 4 * (STRIDES + 2 * number), values.view(np.uint8).reshape(-1, 8)
    held = values.astype(np.uint32) - np.uint32(field == "global_dim")
    return 4 * (WORD_OF[field] + number), held.view(np.uint8).reshape(-1, 4)


def _copy(statement: Statement, machine: Machine) -> Step:
    """tensormap.cp_fenceproxy: 128 bytes from shared to global memory; whoever acquires it may use the map."""
    to, of, count = statement.operands
    if not isinstance(count, Immediate) or count.value != MAP_BYTES:
        raise statement.refused()
    target, source = address_of(machine, to, "global"), address_of(machine, of, "shared")

    def run(where: Where) -> None:
        one = machine.threads[where][::32]  # the warp copies together
        for part in range(0, MAP_BYTES, CHUNK):
            data = machine.load("shared", _of(source, one) + part, CHUNK, one)
            machine.store("global", _of(target, one) + part, data, one)

    return machine.together(run)


def _of(read: Callable[[Where], Any], threads: Any) -> Any:
    return np.broadcast_to(np.asarray(read(threads)), threads.shape).astype(np.int64)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"tensormap": _tensormap}
