"""Launches of variants of a kernel, in a process that may fault, hang or end: that costs the variant that did it."""

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
from typing import IO, Any, NamedTuple

from tcprobe.errors import ProbeError, class_named
from tcprobe.loops.iterations import Iterations, rounds
from tcprobe.loops.launch import LaunchError
from tcprobe.loops.loop import Loop, LoopError
from tcprobe.loops.patch import Patch, one_round, patched
from tcprobe.sass.kernel import Kernel
from tcprobe.system import children
from tcprobe.system.children import Scratch
from tcprobe.text import escaped
from tcprobe.values import Json

COMMAND = (sys.executable, "-m", "tcprobe.loops.bench")
WHOLE, ONE_ROUND = "whole", "one round"
STARTING, PATIENCE, LONGEST = 90.0, 30.0, 240.0  # seconds: until the launch is known, between two messages, in all


@dataclass
class Run:
    """The launches of a kernel's variants: what they took, and what failed.

    `grid`: blocks that are launched, None for as many as the file says. The variant WHOLE must be there.
    """

    kernel: Kernel
    file: Path
    paths: Mapping[str, Path]
    grid: tuple[int, int, int] | None
    about: Json = field(default_factory=dict)
    timed: dict[str, Json] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def all(self) -> None:
        """Launch them, in another process after each that was lost.

        LaunchError of the file and of a kernel that does not run whole; EnvironmentUnfitError without a GPU that runs
        the code.
        """
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
            "grid": self.grid and list(self.grid),
            "cluster": list(self.kernel.code.cluster or ()),
            "sizes": None if places is None else [size for _, size in places.places],
            "cubins": [[name, str(self.paths[name])] for name in names],
        }
        at = ""
        for message in messages(request):
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


def messages(request: Json) -> Iterator[Json]:
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


def launched(
    cubin: bytes, loop: Loop, launch: Path, variants: Sequence[Patch], grid: tuple[int, int, int] | None
) -> Run:
    """The launches of a kernel: whole, with its loop ended after one round where that can be, and of variants."""
    single = one_round(loop)
    every = [Patch(WHOLE, (), 0), *([single] if single else []), *variants]
    with Scratch() as scratch:
        paths = {patch.name: scratch.folder / f"{number}.cubin" for number, patch in enumerate(every)}
        for patch in every:
            paths[patch.name].write_bytes(patched(cubin, loop.kernel, patch))
        run = Run(loop.kernel, launch, paths, grid)
        run.all()
    return run


class Taken(NamedTuple):
    """What a round of the whole kernel took at least, and by how much the middle launch takes more.

    `least`: of a launch, which does so many `rounds`. `note`: what else is in the cycles.
    """

    cycles: float
    spread: float
    least: float
    rounds: int
    note: str


def taken(loop: Loop, run: Run) -> Taken:
    """Cycles of a round; LoopError where it is not known how often the launch runs the loop."""
    rounds = counted(loop, run.about)
    whole = [cycles for message in run.timed.values() for cycles in message["whole"]]
    least, of, note = min(whole), rounds.begun, "with what comes before and after the loop, and the launch"
    inside = least
    if ONE_ROUND in run.timed and rounds.begun > rounds.entered:
        of, note = rounds.begun - rounds.entered, ""
        inside = least - min(run.timed[ONE_ROUND]["cycles"])
    return Taken(inside / of, (median(whole) - least) / of, least, rounds.begun, note)


def counted(loop: Loop, about: Json) -> Iterations:
    """How often a launch runs a loop: what the launch file says, or else what the code shows; else LoopError."""
    launch, values = about["launch"], [bytes.fromhex(value) for value in about["values"]]
    if launch["rounds"] is not None:
        return Iterations(launch["rounds"], 1)
    stated = loop.kernel.code.parameters
    parameters = bytearray(max((offset + size for offset, size in stated.places), default=0)) if stated else bytearray()
    for (offset, size), value in zip(stated.places if stated else (), values, strict=True):
        parameters[offset : offset + size] = value
    try:
        return rounds(loop, tuple(launch["block"]), tuple(launch["grid"]), bytes(parameters))
    except LoopError as error:
        words = f"how often the launch runs the loop at {loop.first:#x} is not known: {error}"
        raise LoopError(f"{words}. ROUNDS = NUMBER in the launch file says it.") from None
