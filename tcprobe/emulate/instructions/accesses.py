"""ld, st, atom, red, addresses: what threads read and write themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tcprobe.emulate.clocks import WEAK
from tcprobe.emulate.machine import Machine, Step, Where
from tcprobe.emulate.mbarriers import barriers
from tcprobe.emulate.memory import GLOBAL, LOCAL, RANK, SHARED, WINDOW
from tcprobe.emulate.operands import COMBINED, NUMPY
from tcprobe.emulate.patterns import ACQUIRE, RELEASE, STRONG_WORDS, modify, observe, publish, scope_of
from tcprobe.emulate.ptx import Address, Named, Operand, Register, Statement
from tcprobe.emulate.rounding import WORDS, exact_sum, narrow, widen
from tcprobe.emulate.unwritten import mark

SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "param",
    "param::entry",
    "param::func",
    "const",
)
WIDTH = {"v2": 2, "v4": 4, "v8": 8}
HINTS = (
    *("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "cta", "cluster", "gpu", "sys", "unified"),
    *("L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L1::no_allocate", "L1::evict_last", "L1::evict_first"),
    *("L1::evict_normal", "L1::evict_unchanged", "L2::evict_last", "L2::evict_first", "L2::evict_normal"),
)


def space_of(statement: Statement) -> str:
    """Of memory, as the name says; generic where it does not."""
    word = next((word for word in statement.modifiers if word in SPACES), "generic")
    return {"shared::cta": "shared", "param::entry": "param", "param::func": "param"}.get(word, word)


def address_of(machine: Machine, operand: Operand, space: str) -> Callable[[Where], Any]:
    """The address in brackets, for threads; of a variable in its space, or as a generic one."""
    assert isinstance(operand, Address)
    kind: Any = np.dtype(np.int64)
    if operand.base is None:
        return lambda where: np.int64(operand.offset)
    if isinstance(operand.base, Named):
        read = machine.address_reader(operand, kind)
        there = machine.places[operand.base.name][0]
        added = {"shared": SHARED, "local": LOCAL}.get(there, 0) if space == "generic" else 0
        return lambda where: read(where) + added
    if isinstance(operand.base, Register) and operand.base.bytes == 4:
        base32 = machine.reader(operand.base, np.uint32)
        offset32 = np.uint32(operand.offset & 0xFFFFFFFF)
        return lambda where: (base32(where) + offset32).astype(np.int64)
    base, offset = machine.reader(operand.base, kind), operand.offset
    if not offset:
        return base
    return lambda where: base(where) + offset


def _element(statement: Statement) -> tuple[Any, int]:
    """The NumPy type of an element and how many there are."""
    words = statement.modifiers
    if words[-1] == "b128":
        return np.dtype(np.uint64), 2
    name = next((word for word in reversed(words) if word in NUMPY), None)
    if name is None:
        raise statement.refused()
    count = next((WIDTH[word] for word in words if word in WIDTH), 1)
    kind = NUMPY[name]
    return (np.dtype(f"u{kind.itemsize}") if kind.kind == "f" else kind), count


def _check(statement: Statement, *more: str) -> None:
    statement.only(*SPACES, *NUMPY, *WIDTH, *HINTS, *STRONG_WORDS, "b128", *more)


def _load(statement: Statement, machine: Machine) -> Step:
    _check(statement)
    space = space_of(statement)
    kind, count = _element(statement)
    source = statement.operands[1]
    if space == "param" and (step := _load_parameter(statement, machine, kind, count)) is not None:
        return step
    targets = machine.items(statement.operands[0])
    wide = statement.modifiers[-1] == "b128"
    address, size = address_of(machine, source, space), kind.itemsize * count
    writers = [] if wide else [machine.writer(target, kind) for target in targets]
    strong = scope_of(statement) if any(word in STRONG_WORDS for word in statement.modifiers) else WEAK
    acquires = "acquire" in statement.modifiers
    if not wide and len(targets) != count:
        raise statement.refused(f"with {len(targets)} registers for {count}")

    def run(where: Where) -> None:
        at = address(where)
        data, unwritten = machine.load_marked(space, at, size, where, strong)
        if wide:
            assert isinstance(targets[0], Register)
            machine.register(targets[0])[where] = data.view(np.uint64)
        elif count == 1:
            writers[0](where, data.view(kind)[:, 0])
        else:
            parts = data.view(kind)
            for number, write in enumerate(writers):
                write(where, parts[:, number])
        if unwritten is not None:
            mark(machine, targets, [unwritten] * len(targets), where)
        if strong:
            observe(machine, machine.reach(space, at, size, machine.threads[where]), where, strong, acquires)

    return run


def _load_parameter(statement: Statement, machine: Machine, kind: Any, count: int) -> Step | None:
    """Of the kernel a number that is the same for all; of a call each thread's own."""
    source = statement.operands[1]
    assert isinstance(source, Address)
    if not isinstance(source.base, Named):
        return None
    writers = [machine.writer(target, kind) for target in machine.items(statement.operands[0])]
    size, name, offset = kind.itemsize * count, source.base.name, source.offset
    if (raw := machine.constants.get(name)) is not None:
        if not 0 <= offset <= len(raw) - size:
            raise statement.refused(f"beyond the {len(raw)} bytes of the parameter")
        numbers = np.frombuffer(raw[offset : offset + size], kind)

        def constant(where: Where) -> None:
            for number, write in zip(numbers, writers, strict=True):
                write(where, number)

        return constant

    def own(where: Where) -> None:
        memory = machine.parameters.get(machine.code.aliases.get(name, name))
        if memory is None:
            machine.find("uninitialised", int(machine.threads[where][0]), f"reads the parameter {name} that nobody set")
            return
        parts = np.ascontiguousarray(memory[where][:, offset : offset + size]).view(kind)
        for number, write in enumerate(writers):
            write(where, parts[:, number])

    return own


def _store(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    if "async" in words:
        return None  # type: ignore[return-value]
    _check(statement)
    space = space_of(statement)
    kind, count = _element(statement)
    sources = machine.items(statement.operands[1])
    target = statement.operands[0]
    if words[-1] == "b128":
        assert isinstance(sources[0], Register)
        array = machine.register(sources[0])
        readers: list[Any] = [partial(_half, array, n) for n in (0, 1)]
    else:
        readers = [machine.reader(source, kind) for source in sources]
    if len(readers) != count:
        raise statement.refused(f"with {len(readers)} registers for {count}")
    size = kind.itemsize * count
    if space == "param":
        assert isinstance(target, Address)
        assert isinstance(target.base, Named)
        return _store_parameter(machine, target.base.name, target.offset, readers, kind)
    address = address_of(machine, target, space)
    strong = scope_of(statement) if any(word in STRONG_WORDS for word in words) else WEAK
    releases = "release" in words

    def run(where: Where) -> None:
        made = np.empty((machine.threads[where].size, count), kind)
        for number, read in enumerate(readers):
            made[:, number] = read(where)
        at = address(where)
        machine.store(space, at, made.view(np.uint8).reshape(-1, size), where, strong)
        if strong:
            publish(machine, machine.reach(space, at, size, machine.threads[where]), where, strong, releases)

    return run


def _half(array: Any, number: int, where: Where) -> Any:
    """A half of a register of 128 bits."""
    return array[where][:, number]


def _store_parameter(machine: Machine, name: str, offset: int, readers: list[Any], kind: Any) -> Step:
    size = max(
        (v.size for f in machine.code.functions.values() for v in f.variables.values() if v.name == name), default=0
    )
    memory = machine.parameters.setdefault(name, np.zeros((machine.count, max(size, 1)), np.uint8))
    if offset < 0 or offset + kind.itemsize * len(readers) > memory.shape[1]:
        raise machine.refuse("beyond the parameter")

    def run(where: Where) -> None:
        for number, read in enumerate(readers):
            at = offset + number * kind.itemsize
            value = np.ascontiguousarray(np.broadcast_to(np.asarray(read(where), kind), machine.threads[where].shape))
            memory[where, at : at + kind.itemsize] = value.view(np.uint8).reshape(-1, kind.itemsize)

    return run


FENCED = (
    *("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl"),
    *("sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
)


def _fence(statement: Statement, machine: Machine) -> Step:
    """fence, membar: of memory, of the async proxy, of the initialisation of mbarriers."""
    if "proxy" in statement.modifiers:
        return _proxy_fence(statement, machine)
    if "mbarrier_init" in statement.modifiers:
        return _initialisation_fence(machine)
    statement.only(*FENCED)
    scope, words = scope_of(statement), statement.modifiers
    acquires, releases = "release" not in words, "acquire" not in words
    return lambda where: machine.clocks.fence(where, scope, acquires, releases)


def _proxy_fence(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    if any(word.startswith("async") for word in words):
        return machine.clocks.fence_proxy
    if "tensormap::generic" in words or "alias" in words:
        return lambda where: None
    raise statement.refused()


def _initialisation_fence(machine: Machine) -> Step:
    def run(where: Where) -> None:
        for barrier in barriers(machine).values():
            barrier.fenced |= barrier.initialiser in machine.threads[where]

    return run


def _wrap(name: str) -> Callable[[Any, Any], Any]:
    if name == "inc":
        return lambda old, b: np.where(old >= b, np.uint32(0), old + np.uint32(1))
    return lambda old, b: np.where((old == 0) | (old > b), b, old - np.uint32(1))


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    **COMBINED,
    "exch": lambda old, b: b,
    "inc": _wrap("inc"),
    "dec": _wrap("dec"),
}


def combine(name: str, kind: str) -> Callable[[Any, Any], Any] | None:
    """The function of what is there and of an operand, as bits."""
    if kind.removesuffix("x2") in WORDS:
        if name not in ("add", "min", "max"):
            return None
        scalar = kind.removesuffix("x2")
        word = WORDS[scalar]

        def floats(old: Any, new: Any) -> Any:
            whole = np.asarray(old).dtype
            a, b = (widen(np.ascontiguousarray(n).view(word), scalar) for n in np.broadcast_arrays(old, new))
            if name == "add":
                made = narrow(a + b if scalar == "f64" else exact_sum(a, b), scalar)
            else:
                made = narrow(np.fmin(a, b) if name == "min" else np.fmax(a, b), scalar)
            return np.ascontiguousarray(made).view(whole).reshape(np.shape(old))

        return floats
    return WHOLE.get(name)


def _atomic(statement: Statement, machine: Machine) -> Step:
    """atom and red: threads one after another."""
    words = statement.modifiers
    reduces = statement.opcode == "red"
    if reduces and "async" in words:
        return None  # type: ignore[return-value]
    name = next((w for w in words if w in WHOLE or w == "cas"), None)
    kind_name = next((w for w in reversed(words) if w in NUMPY), None)
    _check(statement, *WHOLE, "cas", "acq_rel", "noftz", "sc")
    if name is None or kind_name is None:
        raise statement.refused()
    own = NUMPY[kind_name]
    bits: Any = np.dtype(f"u{own.itemsize}") if own.kind == "f" or kind_name in ("bf16", "f16x2", "bf16x2") else own
    operands = statement.operands
    count = next((WIDTH[word] for word in words if word in WIDTH), 1)
    sources = operands[1:] if reduces else operands[2:]
    targets = () if reduces else machine.items(operands[0])
    writers = [machine.writer(t, bits) for t in targets]
    place = operands[0] if reduces else operands[1]
    space = space_of(statement)
    address = address_of(machine, place, space)
    readers = [
        machine.reader(o, bits) for source in sources[: 2 if name == "cas" else 1] for o in machine.items(source)
    ]
    function = None if name == "cas" else combine(name, kind_name)
    if name != "cas" and function is None:
        raise statement.refused()
    size = bits.itemsize * count
    scope = scope_of(statement)
    order = not reduces, any(w in ACQUIRE for w in words), any(w in RELEASE for w in words)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        at = np.broadcast_to(np.asarray(address(where)), threads.shape).astype(np.int64)
        values = np.empty((threads.size, len(readers)), bits)
        for number, read in enumerate(readers):
            values[:, number] = read(where)
        old = np.zeros((threads.size, count), bits)
        for memory, offsets, lanes in machine.reach(space, at, size, threads):
            chosen, given, mine = threads[lanes], values[lanes], old[lanes].copy()
            machine.read(memory, offsets, size, chosen, scope)
            for turn in _turns(offsets):
                before = memory.gather(offsets[turn], size).view(bits)
                mine[turn] = before
                if name == "cas":
                    after = np.where(before == given[turn, :1], given[turn, 1:], before)
                else:
                    after = np.asarray(function(before, given[turn])).astype(bits)  # type: ignore[misc]
                machine.write(memory, offsets[turn], np.ascontiguousarray(after).view(np.uint8), chosen[turn], scope)
            old[lanes] = mine
            modify(machine, memory.name, offsets, chosen, scope, order)
        for number, write in enumerate(writers):
            write(where, old[:, number])

    return run


def _turns(offsets: Any) -> list[Any]:
    """Lanes in rounds, so that in each no two have one address."""
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    starts = np.maximum.accumulate(np.where(first, np.arange(ordered.size), 0))
    rank = np.arange(ordered.size) - starts
    return [np.sort(order[rank == turn]) for turn in range(int(rank.max(initial=-1)) + 1)]


def _cvta(statement: Statement, machine: Machine) -> Step:
    """To a generic address, or back."""
    space = space_of(statement)
    base = {"shared": SHARED, "shared::cluster": SHARED, "local": LOCAL}.get(space, 0)
    back = "to" in statement.modifiers
    write = machine.writer(statement.operands[0], np.uint64)
    read = machine.reader(statement.operands[1], np.uint64)
    moved = np.uint64(base)
    if back:
        return lambda where: write(where, read(where) - moved)
    return lambda where: write(where, read(where) + moved)


def _is_space(statement: Statement, machine: Machine) -> Step:
    space = space_of(statement)
    write, read = machine.writer(statement.operands[0], np.bool_), machine.reader(statement.operands[1], np.int64)

    def run(where: Where) -> None:
        at = np.asarray(read(where))
        windows = {"shared": SHARED, "shared::cluster": SHARED, "local": LOCAL}
        if space in windows:
            write(where, (at >= windows[space]) & (at < windows[space] + WINDOW))
        else:
            write(where, (at >= GLOBAL) & (at < LOCAL))

    return run


def _map_rank(statement: Statement, machine: Machine) -> Step:
    """mapa: the same place in another block's memory."""
    generic = "shared::cluster" not in statement.modifiers
    kind: Any = NUMPY[statement.modifiers[-1]]
    write, read = machine.writer(statement.operands[0], kind), machine.reader(statement.operands[1], kind)
    rank = machine.reader(statement.operands[2], np.uint32)
    base = kind.type(SHARED) if generic and kind.itemsize == 8 else kind.type(0)

    def run(where: Where) -> None:
        own = read(where) - base
        wanted = np.asarray(rank(where)).astype(kind)
        write(where, (own & kind.type((1 << RANK) - 1) | wanted << kind.type(RANK)) + base)

    return run


def _get_rank(statement: Statement, machine: Machine) -> Step:
    kind: Any = NUMPY[statement.modifiers[-1]]
    write, read = machine.writer(statement.operands[0], np.uint32), machine.reader(statement.operands[1], kind)
    base = kind.type(SHARED) if kind.itemsize == 8 and "shared::cluster" not in statement.modifiers else kind.type(0)
    return lambda where: write(where, (np.asarray(read(where) - base) >> kind.type(RANK)).astype(np.uint32))


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "fence": _fence,
    "membar": _fence,
    "cvta": _cvta,
    "isspacep": _is_space,
    "mapa": _map_rank,
    "getctarank": _get_rank,
}
