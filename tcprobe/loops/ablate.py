"""What each class of instruction is worth in a kernel's main loop: measured with one class after another patched away.

A kernel is launched whole, with its loop ended after one round, and without each class. Between the first two lie all
rounds but one, and nothing of what comes before or after the loop; what a class saves is the difference to the whole
kernel, by rounds. The process that launches may fault or hang: that costs the class that did it, and another one goes
on with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from typing import Annotated

from tcprobe.loops.loop import Loop, LoopError
from tcprobe.loops.patch import CLASSES, Patch, patches
from tcprobe.loops.runs import ONE_ROUND, WHOLE, Run, Taken, launched, taken
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.text import Described, escaped
from tcprobe.values import Json


@dataclass(frozen=True)
class Class:
    """A class of a loop's instructions: `off` of `all` are patched away. `cycles` of a round without them, None with
    `words` that say why there are none; `spread`: what the middle of the launches is above the least.
    """

    name: str
    off: int
    all: int
    cycles: float | None = None
    spread: float = 0.0
    words: str = ""


Natural = Annotated[int, Meta(ge=0)]


class AblationAnswer(Answer):
    """What each class of a main loop's instructions is worth: cycles of a round whole, and without each class."""

    kernel: str
    arch: str
    device: str
    first: Annotated[int, Meta(ge=0, description="address of the loop's first instruction")]
    last: Annotated[int, Meta(ge=0, description="address of the branch that leads back there")]
    threads: Annotated[int, Meta(ge=1, description="of the one block that is launched")]
    rounds: Annotated[int, Meta(ge=1)]
    cycles: Annotated[float, Meta(description="of a round")]
    spread: Annotated[
        float,
        Meta(ge=0, description="cycles of a round by which the middle launch is longer than the shortest"),
    ]
    stalls: Annotated[
        int | None,
        Meta(
            description="cycles for which a warp's stall counts hold it in a round, whatever is patched away; null "
            "where the way of a round is not followed"
        ),
    ]
    note: Annotated[str, Meta(description="what else the cycles hold, where the loop alone could not be timed")]
    without: Annotated[
        dict[str, float | None],
        Meta(description="cycles of a round by class that is patched away; null: see `failed`"),
    ]
    patched: Annotated[
        dict[str, tuple[Natural, Natural]],
        Meta(description="by class, how many instructions are patched away, and of how many"),
    ]
    failed: Annotated[dict[str, str], Meta(description="by class, why there are no cycles without it")]


@dataclass(frozen=True, repr=False)
class Ablation(Described):
    """Cycles of a round of a loop, `first` to `last`, whole and without each class.

    `stalls`: for how many of them a warp's stall counts hold it; `note`: what else is in the cycles.
    """

    kernel: str
    arch: str
    device: str
    first: int
    last: int
    threads: int
    rounds: int
    cycles: float
    spread: float
    classes: tuple[Class, ...]
    stalls: int | None = None
    note: str = ""

    @property
    def best(self) -> Class | None:
        """The class without which a round is shortest, if any is shorter than what launches differ by."""
        timed = [
            each for each in self.classes if each.cycles is not None and self.saves(each) > self.spread + each.spread
        ]
        return max(timed, key=self.saves, default=None)

    def saves(self, of: Class) -> float:
        """Cycles of a round that are saved without a class."""
        return 0.0 if of.cycles is None else self.cycles - of.cycles

    @property
    def in_words(self) -> Iterator[str]:
        """A table, the largest saving first."""
        yield f"{escaped(self.kernel)} ({self.arch}) on {escaped(self.device)}: loop {self.first:#x} to {self.last:#x}"
        yield (
            f"{self.cycles:.1f} cycles a round (+ {self.spread:.1f}), {self.rounds} rounds of one block of "
            f"{self.threads} threads{self.note and '; ' + self.note}"
        )
        if self.stalls is not None:
            yield f"stall counts alone hold a warp for {self.stalls} of them, whatever is patched away"
        timed = sorted((each for each in self.classes if each.cycles is not None), key=self.saves, reverse=True)
        if timed:
            yield f"{'without':18}{'cycles':>10}{'saved':>10}  instructions"
        for each in timed:
            yield f"{each.name:18}{each.cycles:10.1f}{self.saves(each):10.1f}  {each.off} of {each.all}"
        for each in self.classes:
            if each.cycles is None:
                yield f"{each.name}: {each.words}"
        if self.best:
            yield f"largest saving: {self.best.name}"

    def to_json(self) -> Json:
        """Plain data; a class without cycles is null, and `failed` says why."""
        classes = self.classes
        answer = AblationAnswer.of(
            self,
            cycles=round(self.cycles, 2),
            spread=round(self.spread, 2),
            without={each.name: None if each.cycles is None else round(each.cycles, 2) for each in classes},
            patched={each.name: (each.off, each.all) for each in classes},
            failed={each.name: each.words for each in classes if each.cycles is None},
        )
        return plain(answer)


def ablate(cubin: bytes, loop: Loop, launch: Path) -> Ablation:
    """Measure a loop of a cubin's function, as a launch file launches it.

    LaunchError of the file and of a kernel that does not run whole, LoopError where the rounds are not known,
    EnvironmentUnfitError without a GPU that runs the code.
    """
    classes = patches(loop)
    run = launched(cubin, loop, launch, [each for each in classes if each.off], loop.kernel.code.cluster or (1, 1, 1))
    return _concluded(loop, run, classes)


def _concluded(loop: Loop, run: Run, classes: Sequence[Patch]) -> Ablation:
    """Cycles a round from what launches took."""
    whole = taken(loop, run)
    return Ablation(
        loop.kernel.name,
        loop.kernel.arch,
        run.about["device"],
        loop.first,
        loop.last,
        prod(run.about["launch"]["block"]),
        whole.rounds,
        whole.cycles,
        whole.spread,
        tuple(_class(patch, run, whole) for patch in classes),
        _stalls(loop),
        whole.note,
    )


def _stalls(loop: Loop) -> int | None:
    """The cycles for which a warp's own stall counts hold it in a round; None where the round's way is not followed."""
    try:
        return sum(max(1, step.control.stall) for step in loop.path())
    except LoopError:
        return None


def _class(patch: Patch, run: Run, whole: Taken) -> Class:
    """A class's cycles of a round, by what launches took without it and whole."""
    if not patch.off:
        return Class(
            patch.name, 0, patch.all, None, 0.0, f"all {patch.all} stay: addresses, branches or waits need them"
        )
    if patch.name not in run.timed:
        words = f"without {len(patch.off)} of {patch.all} the kernel {run.failed[patch.name]}"
        return Class(patch.name, len(patch.off), patch.all, None, 0.0, words)
    timed = run.timed[patch.name]["cycles"]
    saved, spread = (whole.least - min(timed)) / whole.rounds, (median(timed) - min(timed)) / whole.rounds
    return Class(patch.name, len(patch.off), patch.all, whole.cycles - saved, spread)


assert ONE_ROUND not in CLASSES
assert WHOLE not in CLASSES
