"""The bank rule of each access to shared memory: times patterns of addresses, finds the phases, fits a rule.

    tcprobe run --family banks

A block times one pattern. It takes so much shared memory that no second block fits on the SM. Its 16 warps repeat the
access, UNROLL accesses per iteration, between two barriers; the clock is read after each barrier. The cost of one
access follows from the difference between a short and a long run, which cancels what is outside the loop.

Each access of an iteration has its own address register. These registers grow by a step that is zero but comes from
memory: otherwise ptxas would merge accesses or hoist them out of the loop. Lanes with IDLE_LANE skip the loop. Loaded
values go into a sum that is stored, so no load is dead code.

Phases come from the *swap test*: two lanes of a conflict-free pattern exchange their addresses. The pattern stays
conflict-free exactly if both lanes are in one phase. More patterns distinguish the rules of banks. Scattered and
strided addresses count passes; patterns of few addresses show whether words or lanes count. Lanes with equal addresses,
also with one exception or with idle partners, show where phases join. Idle lanes and idle phases show what idleness
costs. For cp.async the sources vary as much as the destinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Target
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.layout.arrays import Bools, Bytes, Floats, Ints, Words
from tcprobe.layout.banks import IDLE, LEAST, BankRule, Judge, SourceTags, is_spread, lookups, tags_from_pairs
from tcprobe.layout.banks import access_cycles as with_lookups
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout
from tcprobe.probes.ptx import Kernel, Launch, NotEmulated, entry, identifier
from tcprobe.store.kinds.banks import Body, Misfit, OtherRule

KIND = "banks"
WARPS = 16
UNROLL = 8
REPEATS = (8, 40)  # iterations of the short and the long run
IDLE_LANE = 0xFFFFFFFF
AREA = 32 << 10  # bytes of shared memory that patterns may address
ARENA = 2 << 20  # bytes of global memory that cp.async reads
NEAR = 16 << 10  # the first bytes of the arena, which patterns of banks read
ALIGNED = 1 << 20  # the images before the arena take a multiple of so many bytes
LINE = 128  # bytes of all banks
STEADY = 0.25  # cycles by which runs of a pattern may differ from each other and from a whole number
PTX = Macros(globals())
POINTERS = ("address", "source", "arena", "zero", "out")


class Cases(NamedTuple):
    """Patterns to time: addresses in AREA, -1 for idle lanes, and sources in ARENA; both of shape (patterns, 32)."""

    address: Ints
    source: Ints


@dataclass(frozen=True)
class Timing(NotEmulated):
    """The op of a timing kernel."""

    access: str = ""


def kernel(access: SharedAccess) -> Kernel:
    """The kernel that times an access; `ldm` of a launch is the number of iterations."""
    name = f"banks_{identifier(access.name)}"
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    values = _values(access)
    text = memory + entry(name, POINTERS, PTX.registers(values), PTX.body(access, name, values))
    op = Timing(f"how long {access.name} takes cannot be emulated", access=access.name)
    return Kernel(name, op, text, access.target, optimised=True)


def _values(access: SharedAccess) -> int:
    """Registers that one access loads or stores."""
    return access.lanes // 8 if access.is_matrix else max(1, access.bytes // 4)


def gives(access: SharedAccess) -> bool:
    """Whether it returns something."""
    return access.name.startswith(("ld", "atom"))


def access_text(access: SharedAccess, k: int) -> str:
    """PTX of access `k` of an iteration."""
    names = [f"%v{j}" for j in range(k * _values(access), (k + 1) * _values(access))]
    several = f"{{{', '.join(names)}}}"
    operation, *rest = access.name.split(".")
    if access.is_matrix:
        form = f"{operation}.sync.aligned.m8n8.{'.'.join(rest)}.shared.b16"
        return f"{form} {several}, [%a{k}];" if gives(access) else f"{form} [%a{k}], {several};"
    if access.has_source:
        return f"cp.async.ca.shared.global [%a{k}], [%arena], {access.bytes};"
    if operation in ("atom", "red"):
        return f"{access.name} {names[0] + ', ' if operation == 'atom' else ''}[%a{k}], %lane;"
    form = f"{operation}.shared.u{8 * access.bytes}" if access.bytes < 8 else f"{operation}.shared.v{len(names)}.u32"
    operand = several if len(names) > 1 else names[0]
    return f"{form} {operand}, [%a{k}];" if gives(access) else f"{form} [%a{k}], {operand};"


def launches(access: SharedAccess, bank_cases: Cases, shared_bytes: int) -> list[Launch]:
    """The short and the long run of all patterns; `shared_bytes` keeps a second block off an SM.

    The bank of a source's tag depends on its absolute address. So the images before the arena are padded: the arena is
    as aligned as the allocation, up to ALIGNED.
    """
    address = np.where(bank_cases.address < 0, IDLE_LANE, bank_cases.address).astype(np.uint32)
    arena = ARENA if access.has_source else LINE
    images = (
        _padded_image(address, access),
        _padded_image(bank_cases.source.astype(np.uint32), access),
        np.zeros(arena, np.uint8),
        np.zeros(4, np.uint8),
    )
    inputs = tuple(np.ascontiguousarray(image).view(np.uint8).reshape(1, -1) for image in images)
    grid, size = (len(address), 1, 1), 8 * len(address)
    timed = kernel(access)
    return [Launch(timed, grid, inputs, repeats, size, WARPS * WARP, shared_bytes) for repeats in REPEATS]


def _padded_image(pattern_words: Words, access: SharedAccess) -> Words:
    """An image of 32 words per pattern; if sources matter, padded to a multiple of ALIGNED bytes."""
    if not access.has_source:
        return pattern_words
    whole = np.zeros((-(-pattern_words.nbytes // ALIGNED) * ALIGNED // (4 * WARP), WARP), np.uint32)
    whole[: len(pattern_words)] = pattern_words
    return whole


def decode(outputs: Sequence[Bytes]) -> Floats:
    """Cycles of one access by pattern, shape (patterns,), from the outputs of the short and the long run."""
    short, long = (raw.view(np.uint32).reshape(-1, 2)[:, 0].astype(np.float64) for raw in outputs)
    cycles: Floats = (long - short) / (WARPS * UNROLL * (REPEATS[1] - REPEATS[0]))
    return cycles


def least_and_steady(runs: Sequence[Floats]) -> tuple[Floats, Bools]:
    """(least cycles over all runs, whether a pattern was timed without ambiguity), both (patterns,).

    A pattern is unambiguous if its runs differ by at most STEADY, and are that close to a whole number.
    """
    all_runs = np.array(runs)
    least: Floats = all_runs.min(axis=0)
    spread = all_runs.max(axis=0) - least
    return least, (spread <= STEADY) & (np.abs(least - least.round()) <= STEADY)


def swaps(access: SharedAccess) -> Cases:
    """Two conflict-free patterns, each followed by all exchanges of two of its lanes.

    The first has addresses in order. In the second, each line of 128 bytes is rotated by one place more than the line
    before: two lanes that share banks in one pattern do not share them in the other.
    """
    step = max(4, access.bytes)
    line, place = np.divmod(step * np.arange(WARP), LINE)
    patterns = []
    for base in (line * LINE + place, line * LINE + (place + line * step) % LINE):
        patterns.append(base)
        for i, j in combinations(range(access.lanes), 2):
            patterns.append(base.copy())
            patterns[-1][[i, j]] = base[[j, i]]
    source = np.tile(step * np.arange(WARP), (len(patterns), 1))
    return Cases(np.array(patterns), source)


def phases(access: SharedAccess, cycles: Floats) -> list[tuple[int, ...]]:
    """The lanes of each phase, from the cycles of `swaps`; ProbeError if they do not partition the lanes."""
    pairs = list(combinations(range(access.lanes), 2))
    bases = cycles.reshape(2, -1)
    free = (bases[:, 1:].round() == bases[:, :1].round()).all(axis=0)
    together = np.eye(access.lanes, dtype=np.bool_)
    for (i, j), stays in zip(pairs, free, strict=True):
        together[i, j] = together[j, i] = stays
    parts = list(dict.fromkeys(tuple(np.flatnonzero(lanes).tolist()) for lanes in together))
    if sorted(lane for phase in parts for lane in phase) != list(range(access.lanes)):
        raise ProbeError(f"{access.name}: exchanging lanes does not part them into phases: {parts[:4]}.")
    return parts


LANE = np.arange(WARP)


def scattered_places(rng: Generator, most: int) -> Ints:
    """Random places, out of many or of few."""
    return rng.integers(0, min(most, int(rng.choice([2, 4, 8, 16, 32, 64, 256, 1024]))), WARP)


def strided_places(rng: Generator, most: int) -> Ints:
    """Places a fixed number apart (0 to 33), in the order of lanes, XORed or permuted."""
    lanes = LANE ^ int(rng.integers(0, WARP)) if rng.random() < 0.5 else rng.permutation(WARP)
    return np.array(lanes * int(rng.integers(0, 34)) % most)


def paired_places(rng: Generator, most: int) -> Ints:
    """Lanes that differ only under a mask share an address; the mask has one bit, two, or all five."""
    base = scattered_places(rng, most) if rng.random() < 0.5 else LANE
    return np.array(base[LANE & ~int(rng.choice([1, 2, 3, 4, 8, 16, 5, 31]))])


def nearly_paired_places(rng: Generator, most: int) -> Ints:
    """As `paired_places`, except for one lane."""
    addresses = paired_places(rng, most).copy()
    addresses[int(rng.integers(0, WARP))] = int(rng.integers(0, most))
    return addresses


Make = Callable[[Generator, int], Ints]
SHAPES: tuple[Make, ...] = (scattered_places, strided_places, paired_places, nearly_paired_places)


def idle_lanes(rng: Generator) -> Bools:
    """Idle lanes: none (in two of five draws), random ones, octets, or one of each pair that differs in a low bit."""
    kind = int(rng.integers(0, 5))
    if kind == 2:
        return np.array(rng.random(WARP) < rng.choice([0.1, 0.5, 0.9]))
    if kind == 3:
        return np.array(rng.random(4)[LANE // 8] < 0.5)
    if kind == 4:
        bit = int(rng.choice([1, 2, 4]))
        return np.array((LANE & bit > 0) ^ (rng.random(WARP)[LANE & ~bit] < 0.5))
    return np.zeros(WARP, np.bool_)


def costly(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """`count` random patterns of an access: destinations in AREA, sources in the first NEAR bytes of the arena.

    The same seed gives the same patterns.
    """
    rng = np.random.default_rng([seed, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        address[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, AREA // access.bytes)
        source[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, NEAR // access.bytes)
        if not access.is_matrix:
            address[j][idle_lanes(rng)] = -1
    return Cases(address, source)


LINE_BITS = tuple(1 << b for b in range(LINE.bit_length() - 1, ARENA.bit_length() - 1))  # bits of a line's address


def tag_pairs(access: SharedAccess) -> Cases:
    """Two lanes whose source lines differ in one or two address bits: whether one bank holds the tags of both.

    Neither shared memory nor the sources have a bank conflict. Patterns are in the order of `tag_steps`.
    """
    steps = tag_steps()
    address = np.full((len(steps), WARP), -1)
    source = np.zeros((len(steps), WARP), np.int64)
    address[:, :2] = (0, access.bytes)
    source[:, 1] = np.array(steps) + access.bytes
    return Cases(address, source)


def tag_steps() -> list[int]:
    """The XOR of the two lines' addresses, for each pattern of `tag_pairs`."""
    return [*LINE_BITS, *(a | b for a, b in combinations(LINE_BITS, 2))]


def far(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """`count` patterns with sources in 1 to 32 lines anywhere in the arena; destinations are in order or scattered."""
    rng = np.random.default_rng([seed, 1, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        lines = rng.integers(0, ARENA // LINE, int(rng.integers(1, WARP + 1)))
        source[j] = lines[rng.integers(0, len(lines), WARP)] * LINE + access.bytes * LANE % LINE
        address[j] = access.bytes * (scattered_places(rng, AREA // access.bytes) if rng.random() < 0.3 else LANE)
        address[j][idle_lanes(rng)] = -1
    return Cases(address, source)


RUNS = 3  # repetitions of each pattern
PATTERNS = 1000  # of each access, besides the swap test
SHOWN = 8  # most misfits in a finding
WAYS: tuple[Literal["words", "lanes", "order"], ...] = ("words", "lanes", "order")


class Timed(NamedTuple):
    """Patterns, cycles of one access under each, and which of them were timed without ambiguity; (patterns,) each."""

    cases: Cases
    cycles: Floats
    steady: Bools


@dataclass(frozen=True)
class BankExperiment(Dialogue):
    """An access, timed on the swap test and on `count` more patterns."""

    access: SharedAccess
    count: int = PATTERNS
    kind = KIND

    @property
    def id(self) -> str:
        return self.access.name

    @property
    def target(self) -> Target:
        return self.access.target

    def kernels(self) -> list[Kernel]:
        return [kernel(self.access)]

    def cases(self) -> Cases:
        """The swap test, then patterns that distinguish rules."""
        others = [costly(self.access, self.count), *([far(self.access, self.count)] if self.access.has_source else [])]
        parts = zip(swaps(self.access), *others, strict=True)
        return Cases(*(np.concatenate(part) for part in parts))

    def measure(self, bench: Bench) -> Readout:
        """ "swapped": cycles of the swap test; "cycles" and "steady" of all cases. With sources, "together": by pair
        whether one bank holds the tags of both lines.
        """
        swapped, _ = self.time_cases(bench, swaps(self.access))
        cycles, steady = self.time_cases(bench, self.cases())
        reading = {"swapped": swapped, "cycles": cycles, "steady": steady}
        if self.access.has_source:
            pairs, _ = self.time_cases(bench, tag_pairs(self.access))
            reading["together"] = pairs.round() > LEAST
        return reading

    def time_cases(self, bench: Bench, bank_cases: Cases) -> tuple[Floats, Bools]:
        """(cycles of one access, whether it was timed without ambiguity) for each of `bank_cases`."""
        alone = bench.shared_bytes() // 2 + 1024  # more than half of an SM's: one block at a time
        planned = launches(self.access, bank_cases, alone)
        return least_and_steady([decode(bench.run(planned)) for _ in range(RUNS)])

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The fitted rule; ProbeError if the lanes do not form phases."""
        tags = tags_from_pairs(tag_steps(), reading["together"]) if self.access.has_source else None
        timed = Timed(self.cases(), reading["cycles"], reading["steady"])
        return fit(self.access, phases(self.access, reading["swapped"]), timed, tags)


def fit(access: SharedAccess, phases: Sequence[tuple[int, ...]], timed: Timed, tags: SourceTags | None = None) -> Body:
    """The rule with the fewest misfits on steady patterns; of equally good rules the simplest.

    A rule that counts beats of idle phases is taken only if it more than halves the misfits. ProbeError unless every
    phase is a run of neighbouring lanes, all runs of one length.
    """
    size = len(phases[0])
    if [list(phase) for phase in phases] != [list(range(j, j + size)) for j in range(0, access.lanes, size)]:
        raise ProbeError(f"{access.name}: phases {list(phases)[:4]} are not runs of neighbouring lanes.")
    cases, measured, steady = timed
    steady_cycles = measured[steady].round().astype(np.int64)
    predictions = {rule: cycles_by_rule(access, rule, cases, tags) for rule in candidates(access, size)}
    missed = {rule: int((values[steady] != steady_cycles).sum()) for rule, values in predictions.items()}
    best, *others = sorted(predictions, key=lambda rule: missed[rule] * (1 + rule.idle))
    second = next((rule for rule in others if (predictions[rule] != predictions[best]).any()), best)
    misfits = _misfits(timed, predictions[best])
    listed, r2 = [list(phase) for phase in phases], _r2(measured, predictions[best])
    other, (tried, unsteady) = OtherRule(second, missed[second]), (int(steady.sum()), int((~steady).sum()))
    return Body(best, tried, len(misfits), r2, unsteady, listed, misfits[:SHOWN], other, tags)


def _misfits(timed: Timed, predicted_cycles: Ints) -> list[Misfit]:
    """The steady patterns that take other cycles than predicted."""
    (address, source), measured, steady = timed
    return [
        Misfit(address[j].tolist(), source[j].tolist(), float(measured[j]), int(predicted_cycles[j]))
        for j in np.flatnonzero(steady & (predicted_cycles != measured.round())).tolist()
    ]


def _r2(pass_cycles: Floats, predicted_cycles: Ints) -> float:
    """The coefficient of determination of a prediction."""
    spread = float(((pass_cycles - pass_cycles.mean()) ** 2).sum())
    return 1 - float(((pass_cycles - predicted_cycles) ** 2).sum()) / spread if spread else 1.0


def candidates(access: SharedAccess, size: int) -> list[BankRule]:
    """Every rule whose phases have `size` lanes, the simplest first."""
    joins = [size << j for j in range(6) if size << j <= min(access.lanes, WARP)]
    ways = WAYS if access.has_source else WAYS[:2]
    return [BankRule(size, joined, passes, idle) for idle, joined, passes in product((False, True), joins, ways)]


def cycles_by_rule(access: SharedAccess, rule: BankRule, bank_cases: Cases, tags: SourceTags | None = None) -> Ints:
    """Cycles of each pattern by a rule; with `tags`, including the lookups of source lines."""
    cycles = Judge(access, rule).cycles(bank_cases.address, bank_cases.source if rule.passes == "order" else None)
    if tags is None:
        return cycles
    sources = np.where(bank_cases.address == IDLE, IDLE, bank_cases.source)
    return with_lookups(cycles, lookups(tags, sources), is_spread(bank_cases.address))


def experiments() -> list[Dialogue]:
    """One experiment for each access."""
    return [BankExperiment(row) for row in accesses().values()]
