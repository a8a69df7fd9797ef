"""The order of a call: found by masks, tried with every arithmetic that may have summed it, proven on random operands.

Everything here runs in the process that calls; `tcprobe.order.child` runs it in one that may hang or be lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tcprobe.arithmetic.order import Multiplies, Order, Types
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array
from tcprobe.order import proof
from tcprobe.order.bench import Alike, Bench, Shape
from tcprobe.order.calls import Call, CallError
from tcprobe.order.explain import Asked, Candidate, candidates, integer_forms
from tcprobe.order.masks import Masks, PositiveMasks
from tcprobe.order.memory import numpy_type, patterns
from tcprobe.order.profile import kernel_names
from tcprobe.order.proof import KINDS, LEAST, PAIRINGS, ROWS, Difference, Operands, Sample
from tcprobe.order.sums import Sum, tree
from tcprobe.order.terms import Lacking, Units
from tcprobe.text import one_line

MOST_K = 1 << 16
MEASURED = "sm_90"  # whose arithmetic is meant on a CPU
TRIED = (2, 12)  # rows and columns of each kind with which candidates are told apart
MOST_NAME = 160  # letters of a kernel's name that an order keeps
PERIOD = 15  # of rows and columns that are repeated over D
ACROSS = 16  # elements of a line that are compared with those of the first
NONZERO = 200  # products of one, of a sum that every type holds
EQUAL_CALLS = 3
GUESSED = 512  # calls of all pairs, beyond which a tree is guessed first
MOST_CALLS = 1 << 17  # which are made for all pairs, where a guess was wrong


class Places(NamedTuple):
    """Whether elements of D with the same operands have the same bits, wherever they are: of `elements`, `different`.

    Those that differ from the first ones lie in `rows` and `cols`; in the rows and columns `alike` none does.
    """

    elements: int
    different: int
    alike: tuple[Alike, Alike]
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None


class Proof(NamedTuple):
    """An order, the forms that give its bits, the elements that differ by kind, and the first of them."""

    order: Order
    alike: tuple[str, ...]
    counts: dict[str, int]
    difference: Difference | None


class Found(NamedTuple):
    """What calls have shown: the orders that masks allow, and samples to tell them apart and to prove one.

    `proof`: that of a tree that was guessed.
    """

    name: str
    candidates: Sequence[Candidate]
    samples: Sequence[Sample]
    places: Places
    calls: int
    seconds: float
    kernel: tuple[str, ...] | None
    more: dict[str, Any]
    stages: dict[str, float]
    lacking: Lacking | None = None
    proof: Proof | None = None


@dataclass(frozen=True)
class Revealed:
    """What was found: the order, the forms that give the same bits, and the proof.

    `elements` of `compared` kinds were compared, of which `different` differ, the first as `difference`. None were of a
    softmax, whose terms are not known to the bit. Where elements lack products or have some twice, there is no order:
    `lacking` says which.
    """

    order: Order | None
    alike: tuple[str, ...]
    elements: int
    different: int
    difference: Difference | None
    places: Places
    calls: int
    seconds: float
    kernel: tuple[str, ...] | None
    compared: dict[str, int] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    lacking: Lacking | None = None

    @property
    def proven(self) -> bool:
        """Whether there is an order, and no element differs."""
        return self.order is not None and not self.different


class Revealing:
    """One call of one shape, step by step; `stages` collects seconds."""

    def __init__(self, call: Call, shape: Shape, seed: int = 1, beat: Callable[[str], None] | None = None) -> None:
        if call.sums:
            shape = shape._replace(n=1)
        if not 1 <= shape.k <= MOST_K:
            raise UsageError(f"`shape`: k {shape.k}; orders of 1 to {MOST_K} products are revealed.")
        self.call, self.shape, self.seed = call, shape, seed
        self.beat = beat or (lambda _: None)
        self.bench = Bench(call, shape, beat)
        self.stages: dict[str, float] = {}
        self._operands: Operands | None = None
        self._start = self._last = time.perf_counter()

    @property
    def arch(self) -> str:
        """Whose arithmetic is meant."""
        return self.call.about.get("arch", MEASURED)

    @property
    def types(self) -> Types:
        """Of A, B and D, once D was seen."""
        return Types(*self.call.types, self.bench.d_kind)

    def stage(self, name: str) -> None:
        """What went on until now has this name."""
        now = time.perf_counter()
        self.stages[name] = round(self.stages.get(name, 0.0) + now - self._last, 3)
        self._last = now
        self.beat(name)

    def find(self) -> Found:
        """All that needs the call; CallError where it has no order that can be found.

        Without candidates and with `lacking` where elements of D lack products or have some twice.
        """
        before = self.steady()
        self.stage("steady")
        kernel = self.kernel()
        self.stage("kernel")
        places = self.places()
        self.stage("places")
        compared = places.elements > PERIOD * PERIOD and not places.different  # of fewer none is as another
        lacking = None if self.call.softmax else Units(self.bench, self.seed).lacking(everywhere=not compared)
        self.stage("terms")
        found, samples, more, proof = ([], [], {}, None) if lacking else self.summed(kernel, places, before)
        more |= {**self.about, "kernel": [one_line(name)[:MOST_NAME] for name in kernel or ()]}
        seconds = round(time.perf_counter() - self._start, 3)
        name, calls = self.call.name, self.bench.calls
        return Found(name, found, samples, places, calls, seconds, kernel, more, self.stages, lacking, proof)

    def summed(
        self, kernel: tuple[str, ...] | None, places: Places, before: bytes
    ) -> tuple[list[Candidate], list[Sample], dict[str, Any], Proof | None]:
        """(the orders that masks allow, samples, what else was seen, a proof), where each product is in one sum."""
        if self.call.softmax:
            self.shares()
        else:
            self.product()
        self.stage("product")
        self.bench.alike = places.alike
        more: dict[str, Any] = {"subnormals": self.subnormals()}
        found, samples, proof = self._revealed(self.call.prefers or _family(kernel))
        if self.again() != before:
            raise CallError(
                f"{self.call.name} gives other bits for the same operands than before it was called with masks."
            )
        self.stage("again")
        return found, samples, more, proof

    def _revealed(self, prefers: str) -> tuple[list[Candidate], list[Sample], Proof | None]:
        """(the orders that masks allow, samples, a proof where the tree was guessed). Where all pairs take many calls a
        tree is guessed from few; all are asked where it is refused, or gives other bits.
        """
        few = self.calls_of_all_pairs() > GUESSED
        if few:
            try:
                found, samples = self._of_tree(prefers, guess=True)
                if self.call.softmax:
                    return found, samples, None
                made = prove(found, samples, self.call.name)
                self.stage("proof")
                if made.difference is None:
                    return found, samples, made
            except CallError:
                pass
            if (calls := self.calls_of_all_pairs()) > MOST_CALLS:
                raise CallError(
                    f"the order of {self.call.name} is not regular, and about {calls} calls would ask all pairs of "
                    f"{self.shape.k} products: with more rows or columns a call asks more of them."
                )
        return *self._of_tree(prefers, guess=False), None

    def _of_tree(self, prefers: str, guess: bool) -> tuple[list[Candidate], list[Sample]]:
        """The orders that a tree allows, and samples."""
        root = self.masks(guess)
        self.stage("masks")
        found = self.candidates(root, prefers)
        self.stage("explain")
        samples = [] if self.call.softmax else list(self.samples(found[0].order))
        self.stage("samples")
        return found, samples

    @property
    def about(self) -> dict[str, Any]:
        """Where an order was found."""
        m, n, k = self.shape
        return {
            **{key: value for key, value in self.call.about.items() if key != "arch"},
            "call": self.call.name,
            "shape": [m, n, k],
            "strides": {"a": self.call.a, "b": self.call.b},
        }

    def _random(self) -> Operands:
        """The operands of `steady`."""
        if self._operands is None:
            size = min(self.shape.m, ROWS), min(self.bench.width, ROWS), self.shape.k
            kinds = Types(*self.call.types, self.bench.d_kind or "f32")
            self._operands = proof.operands("random", kinds, size, self.seed, self.call.sums)
        return self._operands

    def _put(self, given: Operands) -> None:
        a, b = given.bits
        self.bench.fill(a, None if self.call.sums else b)

    def steady(self) -> bytes:
        """Call with the same operands again; CallError where D differs or is not finite, or operands are written."""
        memory = self.call.memory
        self._put(self._random())
        sides = [side for side in (self.bench.a, self.bench.b) if side is not None]
        kept = [side + 0 for side in sides]
        first = self.bench.run() + 0
        for name, side, copy in zip("AB", sides, kept, strict=False):
            written = int(memory.get((side != copy).sum()))
            if written:
                raise CallError(f"{self.call.name} writes its operands: {written} elements of {name} have changed.")
        del kept
        for _ in range(EQUAL_CALLS - 1):
            differ = int(memory.get((self.bench.run() != first).sum()))
            if differ:
                total = self.shape.m * self.bench.width
                raise CallError(
                    f"two equal calls of {self.call.name} differ in {differ} of {total} elements of D, as with atomic "
                    "additions: there is no one order."
                )
        line = memory.get(first[: min(64, self.shape.m)])
        values = np.ascontiguousarray(line).view(numpy_type(self.bench.d_kind))
        wrong = ~np.isfinite(values.astype(np.float64))
        if wrong.any():
            raise CallError(
                f"{self.call.name} gives {float(values[wrong].flat[0])!r} for products of small numbers: it is no GEMM."
            )
        return line.tobytes()

    def again(self) -> bytes:
        """The bits of `steady`'s operands."""
        self._put(self._random())
        return self.call.memory.get(self.bench.run()[: min(64, self.shape.m)]).tobytes()

    def product(self) -> None:
        """CallError unless D is A B where sums are exact: alpha, beta and what is no product are told apart."""
        rng, (m, _, k) = np.random.default_rng(self.seed), self.shape
        rows, cols, name = min(m, ROWS), min(self.bench.width, 64), self.call.name
        ones, others = ([1.0, 2.0] if kind == "u8" else [-1.0, 1.0] for kind in self.call.types)
        a, b = np.zeros((rows, k)), rng.choice(others, (k, cols))
        if self.call.sums:
            b = np.ones((k, 1))
        for line in a:
            line[rng.permutation(k)[: min(k, NONZERO)]] = rng.choice(ones, min(k, NONZERO))
        d = self._exact(a, b)
        wanted = a @ b
        if (d == wanted).all():
            if (zero := self._exact(a * 0, b)).any():
                raise CallError(f"{name} gives {float(zero[zero != 0].flat[0])!r} where A is zero: it is no GEMM.")
            return
        rest = d - wanted
        if (rest == rest[:1]).all():
            shown = repr(float(rest.flat[0])) if (rest == rest.flat[0]).all() else "a number of its own to each column"
            raise CallError(f"{name} adds {shown} to A B (beta or a bias): orders are of beta 0.")
        with np.errstate(all="ignore"):
            ratio = d / wanted
        known = ratio[wanted != 0]
        if not d.any():
            raise CallError(f"{name} gives zero, whatever A and B are: it is no GEMM.")
        if known.size and (known == known[0]).all() and not d[wanted == 0].any():
            raise CallError(f"{name} gives {float(known[0])!r} times A B (alpha or a scale): orders are of alpha 1.")
        row, col = map(int, np.argwhere(d != wanted)[0])
        raise CallError(
            f"{name} is no {'sum' if self.call.sums else 'GEMM'}: D[{row}][{col}] is {float(d[row, col])!r}, where the "
            f"sum of its products is {float(wanted[row, col])!r}."
        )

    def shares(self) -> None:
        """CallError unless equal terms of a softmax have equal shares."""
        x = np.full((min(self.shape.m, ROWS), self.shape.k), -np.inf)
        counts = np.minimum(2 ** np.arange(len(x)), self.shape.k)
        for line, count in zip(x, counts, strict=True):
            line[:count] = 0
        d = self.bench.sampled(patterns("f32", x), None)
        if (np.ascontiguousarray(d).view(np.float32)[:, 0] != np.float32(1) / counts.astype(np.float32)).any():
            raise CallError(f"{self.call.name} is no softmax: equal terms have other shares than their number says.")

    def _exact(self, a: Array, b: Array) -> Array:
        """D of numbers that types hold, as f64."""
        kinds = self.call.types
        bits = patterns(kinds[0], a), None if self.call.sums else patterns(kinds[1], b)
        d = self.bench.sampled(*bits)
        numbers: Array = np.ascontiguousarray(d).view(numpy_type(self.bench.d_kind)).astype(np.float64)
        return numbers

    def subnormals(self) -> dict[str, str]:
        """Whether numbers below the normal ones count, where A, B and D can be small enough to show it."""
        wide = {"bf16", "f32", "tf32"}
        if not {*self.call.types, self.bench.d_kind} <= wide or self.call.sums:
            return {}
        made = {}
        for name, (x, y) in {"inputs": (2.0**-130, 2.0**60), "d": (2.0**-70, 2.0**-60)}.items():
            a, b = np.zeros((1, self.shape.k)), np.zeros((self.shape.k, 1))
            a[0, 0], b[0, 0] = x, y
            made[name] = "kept" if self._exact(a, b)[0, 0] == x * y else "flushed"
        return made

    def masks(self, guess: bool = False) -> Sum | None:
        """The tree of sums; None of integers, whose sums are the same in any order."""
        if self.bench.d_kind == "s32":
            return None
        self._masks = PositiveMasks(self.bench) if self.call.softmax else Masks(self.bench)
        return tree(self.shape.k, self._masks.survivors, guess)

    def calls_of_all_pairs(self) -> int:
        """About how many calls masks take without a guess."""
        if self.bench.d_kind == "s32":
            return 0
        return (PositiveMasks if self.call.softmax else Masks)(self.bench).calls(self.shape.k)

    def candidates(self, root: Sum | None, prefers: str) -> list[Candidate]:
        """The orders that it may be."""
        types, k = self.types, self.shape.k
        if root is None:
            names = integer_forms(self.arch, types.a, types.b, prefers)
            return [Candidate(Order(self.arch, types, k, Multiplies(names[0], ((0, k),))), names)]
        inexact = not self.call.sums and types.a in ("f32", "tf32", "f64")  # products of narrower types are exact
        masks = self._masks
        earlier = (lambda i, j: masks.earlier(i, j).astype(np.int64)) if inexact and isinstance(masks, Masks) else None
        return candidates(root, Asked(self.arch, types, k, prefers, earlier))

    def samples(self, order: Order, least: int | None = None) -> Iterator[Sample]:
        """Operands of each kind with their D, until there are enough elements; `order` says which parts sums have."""
        k, kinds = self.shape.k, len(KINDS)
        each = -(-(least or LEAST) // kinds)
        m, width = (side.number for side in self.bench.alike)
        cols = 1 if self.call.sums else max(min(width, -(-each // min(m, ROWS))), -(-each // ROWS))
        rows = -(-each // cols)
        seed = self.seed
        for kind in KINDS:
            across = -(-cols // PAIRINGS) if kind == "parts" else cols
            for _ in range(-(-each // (rows * across))):
                seed += 1
                size = rows, across, k
                if kind == "parts":
                    given = proof.of_parts(order, size, seed, self.call.sums)
                else:
                    given = proof.operands(kind, self.types, size, seed, self.call.sums)
                a, b = given.bits
                d = self.bench.sampled(a, None if self.call.sums else b)
                yield Sample(given, np.ascontiguousarray(d).view(numpy_type(self.types.d)))

    def places(self) -> Places:
        """Whether bits depend on the place in D, from samples that are repeated over the whole of it.

        Their number is odd: alignment, and so a kernel's way with a line, may be another in every second one.
        """
        memory = self.call.memory
        m, width = self.shape.m, self.bench.width
        rows, cols = min(m, PERIOD), min(width, PERIOD)
        self._put(self._cancelling(rows, cols, self.seed))
        d = self.bench.run()
        down, across = (memory.put(np.arange(size) % few) for size, few in ((m, rows), (width, cols)))
        few = d[:rows, :cols] + 0
        differ = few[down][:, across] != d
        count = int(memory.get(differ.sum()))
        if not count:
            return Places(m * width, 0, (Alike(1, m), Alike(1, width)))
        host = memory.get(differ)
        spans = [np.nonzero(host.any(axis=axis))[0] for axis in (1, 0)]
        alike = _alike(self._as_first(0)), _alike(self._as_first(1))
        return Places(m * width, count, alike, *((int(span[0]), int(span[-1])) for span in spans))

    def _cancelling(self, rows: int, cols: int, seed: int) -> Operands:
        """Operands whose sums show every rounding."""
        return proof.operands("cancelling", self.types, (rows, cols, self.shape.k), seed, self.call.sums)

    def _as_first(self, axis: int) -> Array:
        """Which rows of D (axis 0) have the first one's bits where all rows of A are the same, or columns likewise."""
        few = min((self.shape.m, self.bench.width)[1 - axis], ACROSS)
        same = np.ones((self.shape.m, self.bench.width)[axis], bool)
        for seed in range(-(-ACROSS // few)):
            self._put(self._cancelling(*((1, few) if axis == 0 else (few, 1)), self.seed + seed))
            d = self.bench.run()
            lines = self.call.memory.get(d[:, :few] if axis == 0 else d[:few].T)
            same &= (lines == lines[:1]).all(axis=1)
        return same

    def kernel(self) -> tuple[str, ...] | None:
        """Names of the kernels of a call, None where neither the call nor a profiler gives them."""
        if self.call.memory.device == "cpu":
            return (self.call.about["kernel"],) if "kernel" in self.call.about else None
        return kernel_names(self.bench.run)


def _alike(same: Array) -> Alike:
    """The most lines in equal steps from the first on, all of which are as the first."""
    best = Alike(1, 1)
    for step in (1, 2, 4, 8, 16, 32, 64, 128):
        chosen = same[::step]
        count = len(chosen) if chosen.all() else int(np.argmin(chosen))
        if count > best.number:
            best = Alike(step, count)
    return best


def _family(kernel: tuple[str, ...] | None) -> str:
    """The family of multiplies that a kernel's name speaks of, "" where it does not."""
    return "wgmma" if any(word in name for name in kernel or () for word in ("gmma", "sm90")) else ""


def reveal_call(call: Call, shape: Shape, seed: int = 1, beat: Callable[[str], None] | None = None) -> Revealed:
    """The order of a call, proven, in this process; CallError where there is none."""
    return conclude(Revealing(call, shape, seed, beat).find())


def conclude(found: Found) -> Revealed:
    """Try what was found on the samples: no GPU is needed."""
    if found.lacking:
        return Revealed(
            order=None,
            alike=(),
            elements=0,
            different=0,
            difference=None,
            places=found.places,
            calls=found.calls,
            seconds=found.seconds,
            kernel=found.kernel,
            stages=found.stages,
            lacking=found.lacking,
        )
    start = time.perf_counter()
    order, alike, counts, difference = found.proof or prove(found.candidates, found.samples, found.name)
    compared = {kind: sum(each.d.size for each in found.samples if each.given.kind == kind) for kind in KINDS}
    took = time.perf_counter() - start
    return Revealed(
        order=replace(order, more={**found.more, "alike": list(alike)}),
        alike=alike,
        elements=sum(compared.values()),
        different=sum(counts.values()),
        difference=difference,
        places=found.places,
        calls=found.calls,
        seconds=round(found.seconds + took, 3),
        kernel=found.kernel,
        compared=compared,
        stages={**found.stages, "proof": round(found.stages.get("proof", 0.0) + took, 3)},
    )


def prove(found: Sequence[Candidate], samples: Sequence[Sample], name: str) -> Proof:
    """The candidate that gives the bits of all samples, or most of those of some."""
    few: list[Sample] = []
    for kind in KINDS:
        few += [sample.part(*TRIED) for sample in samples if sample.given.kind == kind][:4]
    right = list(found)
    if len(found) > 1:
        tried = [sum(int(proof.differing(each.order, sample).sum()) for sample in few) for each in found]
        right = [each for each, count in zip(found, tried, strict=True) if count == min(tried)]
    chosen, counts, difference = right[0], dict.fromkeys(KINDS, 0), None
    for sample in samples:
        different = proof.differing(chosen.order, sample)
        counts[sample.given.kind] += int(different.sum())
        if difference is None and different.any():
            difference = proof.first_difference(chosen.order, sample, different)
    if difference and len(right) > 1:
        return prove(right[1:], samples, name)
    if difference and any(all(proof.in_16_bits(each.order, sample) for sample in few) for each in found):
        raise CallError(
            f"{name} rounds partial sums to {chosen.order.types.d} before they are joined: no order has that."
        )
    others = [other for other in right[1:] if not difference and _same_bits(other.order, samples)]
    alike = tuple(dict.fromkeys(form for each in (chosen, *others) for form in each.alike))
    inputs = [each.order.inputs for each in others if each.order.inputs != chosen.order.inputs]
    alike = (*alike, *(f"inputs {each}" for each in dict.fromkeys(inputs)))
    return Proof(chosen.order, alike, counts, difference)


def _same_bits(order: Order, samples: Sequence[Sample]) -> bool:
    """Whether another order gives all bits too."""
    return not any(proof.differing(order, sample).any() for sample in samples)
