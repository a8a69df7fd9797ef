"""What each class of instruction is worth in a kernel's main loop: measured with one class after another patched away.

A kernel is launched whole, with its loop ended after one round, and without each class. Between the first two lie all
rounds but one, and nothing of what comes before or after the loop; what a class saves is the difference to the whole
kernel, by rounds. The process that launches may fault or hang: that costs the class that did it, and another one goes
on with the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from statistics import median
from typing import IO, Any

from tcprobe.check.program import Kernel
from tcprobe.errors import ProbeError, class_named
from tcprobe.loops.launch import LaunchError
from tcprobe.loops.loop import Loop, LoopError
from tcprobe.loops.patch import CLASSES, Patch, one_round, patched, patches
from tcprobe.loops.rounds import Rounds, rounds
from tcprobe.system import children
from tcprobe.system.children import Scratch
from tcprobe.text import Described, escaped
from tcprobe.values import Json

COMMAND = (sys.executable, "-m", "tcprobe.loops.bench")
WHOLE, ONE_ROUND = "whole", "one round"
STARTING, PATIENCE, LONGEST = 90.0, 30.0, 240.0  # seconds: until the launch is known, between two messages, in all


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
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "device": self.device,
            "first": self.first,
            "last": self.last,
            "threads": self.threads,
            "rounds": self.rounds,
            "cycles": round(self.cycles, 2),
            "spread": round(self.spread, 2),
            "stalls": self.stalls,
            "note": self.note,
            "without": {each.name: None if each.cycles is None else round(each.cycles, 2) for each in self.classes},
            "patched": {each.name: [each.off, each.all] for each in self.classes},
            "failed": {each.name: each.words for each in self.classes if each.cycles is None},
        }


def ablate(cubin: bytes, loop: Loop, launch: Path) -> Ablation:
    """Measure a loop of a cubin's function, as a launch file launches it.

    LaunchError of the file and of a kernel that does not run whole, LoopError where the rounds are not known,
    EnvironmentUnfitError without a GPU that runs the code.
    """
    kernel, single = loop.kernel, one_round(loop)
    classes = patches(loop)
    variants = [Patch(WHOLE, (), 0), *([single] if single else []), *(each for each in classes if each.off)]
    with Scratch() as scratch:
        paths = {}
        for number, patch in enumerate(variants):
            paths[patch.name] = scratch.folder / f"{number}.cubin"
            paths[patch.name].write_bytes(patched(cubin, kernel, patch))
        run = _Run(kernel, launch, paths)
        run.all()
    return _concluded(loop, run, classes)


@dataclass
class _Run:
    """The launches of a kernel's variants: what they took, and what failed."""

    kernel: Kernel
    file: Path
    paths: Mapping[str, Path]
    about: Json = field(default_factory=dict)
    timed: dict[str, Json] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def all(self) -> None:
        """Launch them, in another process after each that was lost."""
        while left := [name for name in self.paths if name not in self.timed and name not in self.failed]:
            if left[0] != WHOLE:
                left.insert(0, WHOLE)
            self._some(left)
            if WHOLE in self.failed:
                raise LaunchError(f"{escaped(self.kernel.name)} itself {self.failed[WHOLE]}.")

    def _some(self, names: Sequence[str]) -> None:
        """Launch variants until one is lost."""
        places = self.kernel.code.parameters
        request = {
            "launch": str(self.file),
            "kernel": self.kernel.name,
            "arch": self.kernel.arch,
            "grid": list(self.kernel.code.cluster or (1, 1, 1)),
            "sizes": None if places is None else [size for _, size in places.places],
            "cubins": [[name, str(self.paths[name])] for name in names],
        }
        at = ""
        for message in _messages(request):
            if "error" in message:
                raise class_named(message["error"])(message["words"])
            if "launch" in message:
                self.about = message
            at = message.get("at", at)
            if "timed" in message:
                self.timed[message["timed"]] = message
            if "failed" in message:
                self.failed[message["failed"]] = message["words"]
            if "end" in message:
                return
        if not at:
            raise ProbeError("the process that launches ended before its first launch.")
        self.failed[at] = "ended its process, or gave no answer"


def _messages(request: Json) -> Iterator[Json]:
    """What a process says until it ends, or is silent for too long: then it is ended."""
    with tempfile.TemporaryFile() as errors:
        process = children.start(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdin is not None
        assert process.stdout is not None
        heard: Queue[Json | None] = Queue()
        threading.Thread(target=_listen, args=(process.stdout, heard), daemon=True).start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            limit, end = STARTING, time.monotonic() + LONGEST
            while (left := min(limit, end - time.monotonic())) > 0:
                message = heard.get(timeout=left)
                if message is None:
                    return
                limit = PATIENCE
                yield message
        except (Empty, BrokenPipeError):
            return
        finally:
            children.end(process)
            process.wait()


def _listen(stream: IO[bytes], heard: Queue[Any]) -> None:
    for line in stream:
        heard.put(json.loads(line))
    heard.put(None)


def _concluded(loop: Loop, run: _Run, classes: Sequence[Patch]) -> Ablation:
    """Cycles a round from what launches took."""
    launch, kernel = run.about["launch"], loop.kernel
    block = tuple(launch["block"])
    counted = _rounds(loop, launch, [bytes.fromhex(value) for value in run.about["values"]])
    whole = [cycles for message in run.timed.values() for cycles in message["whole"]]
    least = min(whole)
    note = ""
    if ONE_ROUND in run.timed and counted.begun > counted.entered:
        of = counted.begun - counted.entered
        cycles = (least - min(run.timed[ONE_ROUND]["cycles"])) / of
    else:
        of = counted.begun
        cycles = least / of
        note = "with what comes before and after the loop, and the launch"
    made = [_class(patch, run, cycles, (least, counted.begun)) for patch in classes]
    return Ablation(
        kernel.name,
        kernel.arch,
        run.about["device"],
        loop.first,
        loop.last,
        block[0] * block[1] * block[2],
        counted.begun,
        cycles,
        (median(whole) - least) / of,
        tuple(made),
        _stalls(loop),
        note,
    )


def _stalls(loop: Loop) -> int | None:
    """The cycles for which a warp's own stall counts hold it in a round; None where the round's way is not followed."""
    try:
        return sum(max(1, step.control.stall) for step in loop.path())
    except LoopError:
        return None


def _rounds(loop: Loop, launch: Json, values: Sequence[bytes]) -> Rounds:
    """What the launch file says, or else what the code shows."""
    if launch["rounds"] is not None:
        return Rounds(launch["rounds"], 1)
    stated = loop.kernel.code.parameters
    parameters = bytearray(max((offset + size for offset, size in stated.places), default=0)) if stated else bytearray()
    for (offset, size), value in zip(stated.places if stated else (), values, strict=True):
        parameters[offset : offset + size] = value
    try:
        return rounds(loop, tuple(launch["block"]), tuple(launch["grid"]), bytes(parameters))
    except LoopError as error:
        words = f"how often the launch runs the loop at {loop.first:#x} is not known: {error}"
        raise LoopError(f"{words}. ROUNDS = NUMBER in the launch file says it.") from None


def _class(patch: Patch, run: _Run, cycles: float, whole: tuple[float, int]) -> Class:
    """A class's cycles of a round, by what launches took without it and at least whole, and the rounds of one."""
    if not patch.off:
        return Class(
            patch.name, 0, patch.all, None, 0.0, f"all {patch.all} stay: addresses, branches or waits need them"
        )
    if patch.name not in run.timed:
        words = f"without {len(patch.off)} of {patch.all} the kernel {run.failed[patch.name]}"
        return Class(patch.name, len(patch.off), patch.all, None, 0.0, words)
    timed, (least, of) = run.timed[patch.name]["cycles"], whole
    saved, spread = (least - min(timed)) / of, (median(timed) - min(timed)) / of
    return Class(patch.name, len(patch.off), patch.all, cycles - saved, spread)


assert ONE_ROUND not in CLASSES
assert WHOLE not in CLASSES
