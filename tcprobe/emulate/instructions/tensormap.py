"""tensormap.replace and its copies: tensor maps that a kernel makes itself, in shared memory.

Numbers of types and modes are those of PTX ISA 9.1, section 9.7.9.28 (tensormap.replace), which are not the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.boxes import MAP_BYTES
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.operands import NUMPY
from tcprobe.emulate.ptx import Immediate, Statement
from tcprobe.references.shared_memory.tensor_map_bits import BY_NAME, Field

CHUNK = 16
# the field of a map, which of its numbers is held one less, by the word of PTX
FIELDS = {
    "global_address": ("address", 0),
    "rank": ("rank", 0),
    "elemtype": ("type", 0),
    "interleave_layout": ("interleave", 0),
    "swizzle_mode": ("swizzle", 0),
    "fill_mode": ("fill", 0),
    "global_dim": ("dim", 1),
    "global_stride": ("stride", 0),
    "element_stride": ("step", 1),
    "box_dim": ("box", 1),
}
TF32, TF32_FTZ = 11, 12  # of .elemtype: f32 with a bit more


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
    if field not in FIELDS:
        raise statement.refused(f"with .{field}")
    number = ordinal.value

    def run(where: Where) -> None:
        threads = machine.threads[where]
        numbers = np.broadcast_to(np.asarray(value(where)), threads.shape)
        at = np.broadcast_to(np.asarray(address(where)), threads.shape).astype(np.int64)
        for thread, start, given in zip(threads.tolist(), at.tolist(), numbers.tolist(), strict=True):
            for part in _parts(field, number, int(given)):
                _put(machine, space, start, part, np.array([thread]))

    return run


def _parts(field: str, number: int, given: int) -> Iterator[tuple[Field, int]]:
    """The fields of a map that a word of PTX sets, and what they hold then."""
    name, less = FIELDS[field]
    if field == "elemtype":
        yield BY_NAME["tf32"], int(given in (TF32, TF32_FTZ))
        given = {TF32: 7, TF32_FTZ: 8}.get(given, given)
    if field == "global_stride":
        yield BY_NAME[f"high{number}"], given >> 36
        given >>= 4
    indexed = f"{name}{number}" if f"{name}0" in BY_NAME else name
    yield BY_NAME[indexed], given - less


def _put(machine: Machine, space: str, start: int, part: tuple[Field, int], thread: Any) -> None:
    """Set a field of a map in memory: the bytes that it is in, byte by byte."""
    field, value = part
    mask = (1 << field.bits) - 1
    for byte in range(field.first // 8, (field.first + field.bits - 1) // 8 + 1):
        moved = 8 * byte - field.first  # of the byte's first bit in the field
        own, held = (mask >> moved, value >> moved) if moved >= 0 else (mask << -moved, value << -moved)
        place = np.int64(start + byte)
        old = 0 if own & 255 == 255 else int(machine.load(space, place, 1, thread)[0, 0])
        machine.store(space, place, np.array([[old & ~own & 255 | held & own & 255]], np.uint8), thread)


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
