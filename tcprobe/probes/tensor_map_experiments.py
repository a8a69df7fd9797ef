"""Tensor maps: where boxes are in shared memory, and which maps the driver takes.

    tcprobe run --family tma

Boxes of a swizzle mode are copied both ways, and one rule is fitted to all of them. Boxes at misaligned addresses,
which are expected to cost the device, are experiments of their own. Calls of `cuTensorMapEncodeTiled` are compared with
the rules of `references.shared_memory.tensor_map`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.fit.boxes import BoxFit, PlacedBox, fit_boxes
from tcprobe.isa.target import Target
from tcprobe.isa.tensor_map import DATA_TYPES, SWIZZLES
from tcprobe.layout.arrays import Array
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout, array_of_text, text_lines
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.tensor_map_cases import boxes, encodings, misaligned_boxes
from tcprobe.probes.tensor_maps import DIRECTIONS, TARGET, BoxCase, decode, is_rounded, kernel, launches, window_of
from tcprobe.references.shared_memory.tensor_map import broken_rules, refusing_rules
from tcprobe.store.kinds.tensor_maps import (
    ENCODINGS,
    MISALIGNED,
    Body,
    BoxRecord,
    EncodeCall,
    MapCounts,
    ModeRule,
    Rule,
)

KIND = "tensor_maps"
ACCEPTED = "CUDA_SUCCESS"
MODE_NAMES = {number: name for name, number in SWIZZLES.items()}
TYPE_NAMES = {number: name for name, (number, _) in DATA_TYPES.items()}
PlacedBoxes = dict[str, dict[int, PlacedBox]]  # by direction and number of the box


class OfTensorMaps(Dialogue):
    """What these experiments share."""

    kind = KIND

    @property
    def target(self) -> Target:
        """The first arch with tensor maps."""
        return TARGET


@dataclass(frozen=True)
class ModeExperiment(OfTensorMaps):
    """All boxes of a swizzle mode."""

    name: str
    cases: tuple[BoxCase, ...]

    @property
    def id(self) -> str:
        """The mode's name."""
        return self.name

    def kernels(self) -> list[Kernel]:
        """The kernels of both directions, for each number of dimensions."""
        return _kernels(self.cases)

    def measure(self, bench: Bench) -> Readout:
        """ "maps": the driver's answer to each map; "load", "store": where boxes are; "wrong": copies that could not be
        followed.
        """
        answers = [bench.map_result(case.map) for case in self.cases]
        accepted = {n: case for n, case in enumerate(self.cases) if answers[n] == ACCEPTED}
        return {"maps": array_of_text(answers), **_copy_boxes(bench, accepted)}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The rule; none if the driver takes no map. ProbeError if it takes maps but no box can be followed."""
        answers = text_lines(reading["maps"])
        unlike = [n for n, case in enumerate(self.cases) if (answers[n] == ACCEPTED) == bool(refusing_rules(case.map))]
        accepted = answers.count(ACCEPTED)
        maps = MapCounts(accepted, len(answers) - accepted, [_box(self.cases[n], result=answers[n]) for n in unlike])
        mode = self._mode(reading)
        if accepted and mode is None:
            raise ProbeError(f"no box of {accepted} maps could be followed, first {text_lines(reading['wrong'])[0]}.")
        return Body(mode=mode, maps=maps)

    def _mode(self, reading: Readout) -> ModeRule | None:
        placed = {way: dict(_boxes_of(reading[way], self.cases)) for way in DIRECTIONS}
        every = [box for of_way in placed.values() for box in of_way.values()]
        if not every:
            return None
        first, second = map(_rule, fit_boxes(every))
        used = [self.cases[n] for n in sorted({n for of_way in placed.values() for n in of_way})]
        lost = [line.split(" ", 2) for line in text_lines(reading["wrong"])]
        return ModeRule(
            first.pitch,
            first.swizzle,
            first.misfits,
            sum(box.addresses.size for box in every),
            len(placed["load"]),
            len(placed["store"]),
            sorted({TYPE_NAMES[case.map.type] for case in used}),
            sorted({case.map.row_bytes for case in used}),
            sorted({case.base for case in used}),
            sorted({case.map.rank for case in used}),
            second,
            [_box(self.cases[int(n)], direction=way, words=words) for way, n, words in lost],
        )


@dataclass(frozen=True)
class MisalignedExperiment(OfTensorMaps):
    """A box at a misaligned address."""

    number: int
    case: BoxCase

    @property
    def id(self) -> str:
        """The box's number."""
        return f"{MISALIGNED}{self.number}"

    def kernels(self) -> list[Kernel]:
        """The kernels of both directions."""
        return _kernels([self.case])

    def measure(self, bench: Bench) -> Readout:
        """As `ModeExperiment.measure`, for one box and without "maps"."""
        return _copy_boxes(bench, {0: self.case})

    def conclude(self, reading: Readout, context: Context) -> Body:
        """Whether it was copied, else what went wrong."""
        wrong = text_lines(reading["wrong"])
        return Body(fault=_box(self.case, words=wrong[0].split(" ", 2)[2] if wrong else "copied"))

    def instead(self, event: str, words: str) -> Body | None:
        """The error by which the device was lost."""
        return Body(fault=_box(self.case, words=words)) if event in ("fault", "hangs") else None


class EncodingsExperiment(OfTensorMaps):
    """The driver's answers to maps."""

    @property
    def id(self) -> str:
        """The subject; there is only one."""
        return ENCODINGS

    def kernels(self) -> list[Kernel]:
        """No kernels: the driver answers."""
        return []

    def measure(self, bench: Bench) -> Readout:
        """ "maps": the driver's answer to each map."""
        return {"maps": array_of_text([bench.map_result(encoding.map) for encoding in encodings()])}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """Each call, and the rules that it breaks."""
        answers = text_lines(reading["maps"])
        return Body(
            calls=[
                EncodeCall(
                    encoding.argument,
                    list(encoding.value) if isinstance(encoding.value, tuple) else encoding.value,
                    words,
                    [rule.name for rule in broken_rules(encoding.map)],
                    (words == ACCEPTED) != bool(refusing_rules(encoding.map)),
                )
                for encoding, words in zip(encodings(), answers, strict=True)
            ]
        )


def _kernels(boxes: Sequence[BoxCase]) -> list[Kernel]:
    ranks = sorted({case.map.rank for case in boxes})
    return [kernel(direction, rank) for direction in DIRECTIONS for rank in ranks]


def _copy_boxes(bench: Bench, numbered_boxes: Mapping[int, BoxCase]) -> Readout:
    """By direction the boxes, one after the other, as `_boxes_of` reads them; "wrong": the copies that failed."""
    arrays: dict[str, list[NDArray[np.int32]]] = {direction: [] for direction in DIRECTIONS}
    wrong = []
    for rank, rounded in sorted({(case.map.rank, is_rounded(case)) for case in numbered_boxes.values()}):
        alike = {n: case for n, case in numbered_boxes.items() if (case.map.rank, is_rounded(case)) == (rank, rounded)}
        window = 0
        for direction in DIRECTIONS:
            outputs = bench.run(launches(direction, rank, list(alike.values())))
            window = window_of(outputs) if direction == "load" else window
            for n, addresses in zip(alike, decode(direction, list(alike.values()), outputs, window), strict=True):
                if isinstance(addresses, str):
                    wrong.append(f"{direction} {n} {addresses}")
                else:
                    arrays[direction].append(np.array([n, window, *addresses.shape, *addresses.ravel()], np.int32))
    flat = {direction: np.concatenate([np.zeros(0, np.int32), *parts]) for direction, parts in arrays.items()}
    return {**flat, "wrong": array_of_text(wrong)}


def _boxes_of(flat: Array, boxes: Sequence[BoxCase]) -> Iterator[tuple[int, PlacedBox]]:
    """(number, box) from an array of: number, start of shared memory, rows, bytes of a row, addresses."""
    start = 0
    while start < len(flat):
        number, window, rows, width = (int(n) for n in flat[start : start + 4])
        addresses = flat[start + 4 : start + 4 + rows * width].reshape(rows, width).astype(np.int64)
        if not 0 <= number < len(boxes):
            raise ProbeError(f"there is no box {number}.")
        yield number, PlacedBox(window + boxes[number].base, addresses)
        start += 4 + rows * width


def _rule(fitted: BoxFit) -> Rule:
    swizzle = fitted.rule.swizzle.to_json()
    return Rule(fitted.rule.pitch or "row", (swizzle[0], swizzle[1], swizzle[2]), len(fitted.misfits))


def _box(box_case: BoxCase, **more: Any) -> BoxRecord:
    return BoxRecord(
        TYPE_NAMES[box_case.map.type], list(box_case.map.box), MODE_NAMES[box_case.map.swizzle], box_case.base, **more
    )


def experiments() -> list[Dialogue]:
    """Every mode, then the driver's answers, and last what may cost the device."""
    by_mode: dict[int, list[BoxCase]] = {}
    for box in boxes():
        by_mode.setdefault(box.map.swizzle, []).append(box)
    modes = [ModeExperiment(MODE_NAMES[number], tuple(cases)) for number, cases in by_mode.items()]
    return [*modes, EncodingsExperiment(), *(MisalignedExperiment(n, box) for n, box in enumerate(misaligned_boxes()))]
