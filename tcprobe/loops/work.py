"""What the instructions of a round ask of an SM: pipes, ports of registers, wavefronts, barriers, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.opcodes import opcode
from tcprobe.loops import roles
from tcprobe.loops.costs import PIPES, Prices
from tcprobe.loops.loop import Loop, LoopError, Step
from tcprobe.sass.addresses import SHARED, Reach, reaches
from tcprobe.sass.decode import Operand, union
from tcprobe.sass.kernel import Instruction
from tcprobe.sass.registers import UNIFORM
from tcprobe.sass.requests import UndecidedError, conflicts, sectors, width

# what an instruction is to the scheduler
PLAIN, MEMORY, COPY, BARRIER, WAIT, COMMIT, GROUP, GROUP_WAIT, ARRIVE, LANDS, FREES = range(11)
_GLOBAL = ("global", "generic")
SECTOR = 32  # bytes
# cycles between two requests of a scheduler by registers, of an H200: tcprobe cost has loops of 8 of them by warps
READ_RELEASE = 9
FAR, FAR_COPY = 124, 60  # more cycles until data of L2 are there whose lines a block reads for the first time


class Work(NamedTuple):
    """An instruction of a round as the scheduler sees it.

    `ports`: cycles that it holds the even and the odd bank of registers. `issue_cycles`: of a scheduler's queue,
    `read_release`: until its registers are read, `writeback`: that its data take, `wavefronts` of shared memory,
    `bytes` from L2. `limit`: what WAIT and GROUP_WAIT leave outstanding; of BARRIER and ARRIVE how many warps meet, 0
    all; of FREES how many stages behind the last one is freed. `barrier`: of BARRIER and ARRIVE its number, of WAIT
    that of a counter, of LANDS and FREES that of a ring.
    """

    opcode: str
    stall: int
    write: int
    read: int
    waits: tuple[int, ...]
    taken: bool
    kind: int = PLAIN
    pipe: int = PIPES.index("issue")
    cycles: float = 1
    latency: float = 1
    ports: tuple[int, int] = (0, 0)
    issue_cycles: float = 0
    read_release: float = 0
    writeback: float = 0
    wavefronts: float = 0
    bytes: int = 0
    limit: int = 0
    barrier: int = 0


class Iteration(NamedTuple):
    """The work of one iteration of a warp, and what was assumed of it, in words."""

    works: tuple[Work, ...]
    assumed: tuple[str, ...]


def work(loop: Loop, prices: Prices, warp: int = 0) -> Iteration:
    """The work of a round; UnpricedError, LoopError with the reason where it is not known."""
    steps, meets, named = loop.path(warp), roles.meetings(loop, warp), roles.joined(loop.kernel).named
    far = _reading_on(steps)
    reached = {reach.instruction.number: reach for reach in reaches(loop.kernel)}
    assumed: dict[str, None] = dict.fromkeys((*loop.assumed.values(), *roles.assumed(loop, warp)))
    cached: dict[int, int] = {}
    works = []
    for number, step in enumerate(steps):
        after = steps[(number + 1) % len(steps)].instruction.number
        made, words = _work(step, after, prices, reached.get(step.instruction.number), cached)
        if number in far:
            made = made._replace(latency=made.latency + (FAR_COPY if made.kind == COPY else FAR))
        if made.kind == BARRIER:
            made = _named(made, step.instruction, named.get(step.instruction.number, ()), warp)
        if number in meets:
            meeting = meets[number]
            made = made._replace(kind=LANDS if meeting.lands else FREES, barrier=meeting.ring, limit=meeting.late)
        works.append(made)
        modes = "" if step.instruction.guard == "never" else prices.of(step.instruction).modes
        assumed |= dict.fromkeys(filter(None, (words, modes)))
    return Iteration(tuple(works), tuple(assumed))


def _reading_on(steps: Sequence[Step]) -> set[int]:
    """The steps whose address in global memory is another one in each round.

    What a round reads first and writes later comes from the round before, and so does what is made of it.
    """
    exposed = written = always = 0
    for instruction in (step.instruction for step in steps):
        exposed |= _sources(instruction) & ~always
        written |= instruction.writes
        always |= 0 if instruction.guard else instruction.writes
    varying, far = exposed & written, set()
    for _ in range(2):  # what varies at the end of a round does so in the next one
        for number, instruction in enumerate(step.instruction for step in steps):
            addresses = [operand.mask for operand in instruction.operands if operand.kind == "address"]
            if _loads(instruction.mnemonic) and any(mask & varying for mask in addresses[-1:]):
                far.add(number)
            if _sources(instruction) & varying:
                varying |= instruction.writes
            elif not instruction.guard:
                varying &= ~instruction.writes
    return far


def _loads(mnemonic: str) -> bool:
    """Whether lanes load from global memory, or copy from it."""
    row = opcode(mnemonic)
    return row.accesses and row.kind in ("load", "copy") and not set(_GLOBAL).isdisjoint(row.reads)


def _sources(instruction: Instruction) -> int:
    """The registers of its operands that it reads; its guard decides whether it is done, not what comes of it."""
    return union(instruction.operands[instruction.form.outputs :])


def _work(step: Step, after: int, prices: Prices, reach: Reach | None, cached: dict[int, int]) -> tuple[Work, str]:
    instruction, control = step
    waits = tuple(j for j in range(6) if control.waits >> j & 1)
    made = Work(
        instruction.opcode,
        max(control.stall, 1),
        -1 if control.write_barrier is None else control.write_barrier,
        -1 if control.read_barrier is None else control.read_barrier,
        waits,
        taken=after != instruction.number + 1,
    )
    if instruction.guard == "never":
        return made, ""
    mnemonic = instruction.mnemonic
    price = prices.of(instruction)
    if mnemonic.endswith("GMMA") and any(o.kind == "R" for o in instruction.operands[1:2]):
        price = prices.measured.get(instruction.opcode + ".RA", price)
    made = made._replace(pipe=PIPES.index(price.pipe), cycles=price.cycles, latency=price.latency)
    if mnemonic in ("BAR", "DEPBAR", "LDGDEPBAR", "WARPGROUP") or mnemonic.endswith("GMMA"):
        return _ordered(made, instruction), ""
    if mnemonic == "LDC":  # through the same queue, from a memory of its own
        return made._replace(kind=MEMORY, issue_cycles=4, read_release=READ_RELEASE), ""
    if price.pipe == "lsu":
        return _moved(made, instruction, prices, reach)
    return made._replace(ports=_ports(instruction, price.cycles, cached)), ""


def _ordered(made: Work, instruction: Instruction) -> Work:
    """What waits for others, or is waited for."""
    mnemonic = instruction.mnemonic
    limit = next((o.value for o in instruction.operands if o.kind == "number"), 0)
    if mnemonic == "BAR":
        return made._replace(kind=BARRIER)
    if mnemonic == "DEPBAR":
        counter = instruction.operands[0]
        return made._replace(kind=WAIT, barrier=counter.first, limit=limit) if counter.kind == "SB" else made
    if mnemonic == "LDGDEPBAR":
        return made._replace(kind=COMMIT)
    if mnemonic.endswith("GMMA"):
        return made._replace(kind=GROUP, limit=int(any("gsb0" in o.text for o in instruction.operands)))
    if instruction.form.has("DEPBAR"):
        return made._replace(kind=GROUP_WAIT, limit=limit)
    return made


def _named(made: Work, instruction: Instruction, numbers: Sequence[int | None], warp: int) -> Work:
    """With the number of a barrier, and how many warps meet there, 0 for all; LoopError where code does not say."""
    if not instruction.opcode.startswith(("BAR.SYNC", "BAR.ARV")):
        raise LoopError(f"warps wait for each other in other ways: {instruction} at {instruction.address:#x}")
    first, *others = instruction.operands
    number = first.value if first.kind == "number" else numbers[warp] if warp < len(numbers) else None
    if number is None or any(other.kind != "number" for other in others):
        raise LoopError(f"which warps meet at {instruction} at {instruction.address:#x} is not known")
    kind = ARRIVE if instruction.opcode.startswith("BAR.ARV") else BARRIER
    return made._replace(kind=kind, barrier=number, limit=others[0].value // WARP if others else 0)


def _moved(made: Work, instruction: Instruction, prices: Prices, reach: Reach | None) -> tuple[Work, str]:
    """Loads, stores, exchanges and copies: the queue of a scheduler, and the memory that it leads to."""
    mnemonic, words = instruction.mnemonic, ""
    data = max((o.width for o in instruction.operands if o.kind == "R"), default=1)
    row = opcode(mnemonic)
    made = made._replace(ports=(row.ports, row.ports) if row.ports else _read_ports(instruction))
    stores = row.stores
    issue_cycles = max(made.cycles, 2 + 2 * data) if stores else made.cycles
    made = made._replace(issue_cycles=issue_cycles, read_release=10 + 2 * data if stores else READ_RELEASE)
    if mnemonic == "LDGSTS":
        size = width(instruction.form)
        least = -(-size * WARP // 128)
        passes, words = _wavefronts(instruction, reach, least)
        wavefronts = prices.copied(instruction.opcode, least) + max(passes - least, 0)
        made = made._replace(kind=COPY, issue_cycles=8, read_release=25, wavefronts=wavefronts, bytes=size * WARP)
        return made, words
    if row.accesses and not {*row.reads, *row.writes}.isdisjoint(_GLOBAL):
        count, words = _sectors(instruction, reach)
        return made._replace(kind=MEMORY, wavefronts=max(1, count / 4), bytes=count * SECTOR), words
    least = (
        {"LDSM": data, "STSM": data}.get(mnemonic, max(1, width(instruction.form) // 4)) if mnemonic in SHARED else 1
    )
    passes, words = _wavefronts(instruction, reach, least) if mnemonic in SHARED else (1, "")
    extra = max(passes - least, 0)
    made = made._replace(kind=MEMORY, wavefronts=passes, latency=made.latency + extra)
    if not stores and mnemonic != "LDL":
        made = made._replace(writeback=2 * data)
    return made, words


def _wavefronts(instruction: Instruction, reach: Reach | None, least: int) -> tuple[int, str]:
    """Wavefronts of a request of shared memory, and what was assumed for want of its addresses."""
    try:
        request = conflicts(reach) if reach else None
    except UndecidedError as error:
        return least, f"{instruction.opcode} at {instruction.address:#x} has no conflicts ({error})"
    return (request.typical, "") if request else (least, "")


def _sectors(instruction: Instruction, reach: Reach | None) -> tuple[int, str]:
    """Sectors of a request of global memory, and what was assumed for want of its addresses."""
    least = -(-width(instruction.form) * WARP // SECTOR)
    try:
        request = sectors(reach) if reach else None
    except UndecidedError as error:
        return least, f"{instruction.opcode} at {instruction.address:#x} reads whole sectors ({error})"
    return (request.typical, "") if request else (least, "")


def _ports(instruction: Instruction, cycles: float, cached: dict[int, int]) -> tuple[int, int]:
    """Cycles that an instruction holds the even and the odd bank; `cached`: registers kept by slot of an operand."""
    operands = instruction.operands[instruction.form.outputs :]
    if instruction.mnemonic.endswith("MMA"):
        registers = sum(o.width for o in operands if o.kind == "R" and o.first >= 0)
        hold = int(min(cycles, -(-registers // 2) + 1))
        return hold, hold
    banks = [0, 0]
    for slot, operand in enumerate(_slots(operands)):
        if operand.kind != "R" or operand.first < 0:
            continue
        if cached.get(slot) != operand.first:
            for j in range(max(operand.width, 1)):
                banks[(operand.first + j) % 2] += 1
        if operand.reuse:
            cached[slot] = operand.first
        else:
            cached.pop(slot, None)
    return banks[0], banks[1]


def _read_ports(instruction: Instruction) -> tuple[int, int]:
    """Cycles of the even and the odd bank for the registers that a request reads: a cycle more than there are."""
    mask = instruction.reads & (1 << UNIFORM) - 1
    even = sum(1 << j for j in range(0, UNIFORM, 2))
    banks = (mask & even).bit_count(), (mask & ~even).bit_count()
    return banks[0] + (banks[0] > 0), banks[1] + (banks[1] > 0)


def _slots(operands: Sequence[Operand]) -> list[Operand]:
    """Source operands by slot: predicates take none."""
    return [operand for operand in operands if operand.kind not in ("P", "UP")]
