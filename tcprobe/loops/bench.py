"""The process that launches a kernel and its patched copies on a GPU: it may hang or be lost, and who asks goes on.

It reads one request, a line of JSON, from standard input: the launch file, the kernel, and cubins by name, the first
one whole. It writes lines of JSON:

    {"launch": {grid, block, parameters, rounds}, "device": NAME, "sms": N}     what the file gave
    {"at": NAME}                                                      a cubin is about to run
    {"timed": NAME, "cycles": [...], "whole": [...], "ns": [...]}     launches in turns with the whole kernel
    {"failed": NAME, "words": TEXT}                                   it faults, hangs, or is refused
    {"end": true}: of all that was asked, or of the context; or {"error": CLASS, "words": TEXT}

Cycles are of the SMs' own counters, read by a kernel of a thread an SM right before and right after a launch; the
first of them waits, so that the three are in the queue when it ends. SMs have not all one clock: of an H200 those of
one GPC counted 1,803 cycles where the others counted 1,980. So the counters that count are those of the SMs on which
blocks of such a launch are put, which a kernel of the same shape says: the same ones each time on a GPU that is idle.
`ns` are those of the whole kernel's launches by the GPU's timer, which does not follow the SMs' clocks. Of the whole
kernel "at_once" says how many blocks an SM holds. Of several such processes one launches at a time.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, StarvedError, UsageError, debugging, understood
from tcprobe.isa import arch as archs
from tcprobe.loops.launch import Launch, LaunchError, launch_of
from tcprobe.values import Json

TIMES = 24  # launches of each kernel
WARMED = 3  # launches before those that count
MARKS = 3  # launches that say where blocks are put
MOST_SECONDS = 5.0  # of a launch
MOST_SMS = 1024
WAIT = 200_000  # cycles of the kernel that waits until what follows is in the queue
TICK = """.version 7.0
.target sm_70
.address_size 64
.visible .entry tick(.param .u64 out, .param .u64 cycles) {
.reg .b64 %o, %w, %b, %n, %d, %a; .reg .b32 %s; .reg .pred %p;
ld.param.u64 %o, [out];
ld.param.u64 %w, [cycles];
cvta.to.global.u64 %o, %o;
mov.u64 %b, %clock64;
AGAIN:
mov.u64 %n, %clock64;
sub.u64 %d, %n, %b;
setp.lt.u64 %p, %d, %w;
@%p bra AGAIN;
mov.u32 %s, %smid;
mad.wide.u32 %a, %s, 16, %o;
mov.u64 %n, %clock64;
mov.u64 %d, %globaltimer;
st.global.u64 [%a], %n;
st.global.u64 [%a+8], %d;
ret;
}
"""


# says in `out`, by SM, where blocks are put
MARK = """.version {version}
.target {target}
.address_size 64
.visible .entry mark(.param .u64 out) {cluster} {{
.reg .b64 %o, %a; .reg .b32 %s;
ld.param.u64 %o, [out];
cvta.to.global.u64 %o, %o;
mov.u32 %s, %smid;
mad.wide.u32 %a, %s, 4, %o;
mov.u32 %s, 1;
st.global.u32 [%a], %s;
ret;
}}
"""


class LostError(Exception):
    """A kernel that faults or does not end: nothing further can run in this process."""


class Lap(NamedTuple):
    """What a launch took: cycles of the SMs' counters, and nanoseconds."""

    cycles: float
    ns: float


class Bench(Protocol):
    """What launches kernels on a device of so many SMs."""

    device: str
    sms: int

    def prepare(self, launch: Launch) -> list[bytes]:
        """Put the arrays where kernels reach them; the bytes of each parameter."""

    def load(self, cubin: bytes, kernel: str) -> Any:
        """A kernel of a cubin; LaunchError where the driver refuses it."""

    def lap(self, function: Any) -> Lap:
        """One launch; LostError, or LaunchError where it is refused."""

    def at_once(self, function: Any) -> int:
        """How many blocks of the launch an SM holds at once."""


class Gpu:
    """The first GPU, by CuPy."""

    def __init__(self, arch: str, cluster: Sequence[int] = ()) -> None:
        from tcprobe.run.gpu import Gpu as Opened

        self._gpu = Opened()
        device = self._gpu.devices()[0]
        present, needed = archs.arch(device.arch), archs.arch(arch)
        if present.number // 10 != needed.number // 10 or present.number < needed.number:
            raise EnvironmentUnfitError(f"the kernel is for {needed.name}; {device.name} is {present.name}.")
        self._gpu.open(0)
        self.device = device.name
        self._cuda = self._gpu.cupy.cuda
        self.sms = int(self._cuda.runtime.getDeviceProperties(0)["multiProcessorCount"])
        self._counts = [self._gpu.cupy.zeros((MOST_SMS, 2), np.uint64) for _ in "ab"]
        self._tick = self._function(TICK.encode() + b"\0", "tick")
        sides = f".reqnctapercluster {', '.join(map(str, cluster))}" if cluster else ""
        version, target = ("7.8", "sm_90") if cluster else ("7.0", "sm_70")
        text = MARK.format(version=version, target=target, cluster=sides)
        self._mark = self._function(text.encode() + b"\0", "mark")
        self._marked = self._gpu.cupy.zeros(MOST_SMS, np.uint32)
        self._own: Any = None  # the SMs that count
        self.arrays: list[Any] = []
        self._launch: Launch | None = None

    def _function(self, code: bytes, name: str) -> Any:
        module = self._cuda.function.Module()
        module.load(code)
        return module.get_function(name)

    def prepare(self, launch: Launch) -> list[bytes]:
        """As Bench's."""
        cupy, values = self._gpu.cupy, []
        for argument in launch.arguments:
            if isinstance(argument, bytes):
                values.append(argument)
                continue
            plain = isinstance(argument, np.ndarray)
            array = cupy.asarray(np.ascontiguousarray(argument).reshape(-1).view(np.uint8)) if plain else argument
            self.arrays.append(array)
            values.append(int(array.__cuda_array_interface__["data"][0]).to_bytes(8, "little"))
        self._cuda.runtime.deviceSynchronize()
        self._launch, self._own = launch, None
        self._passed = [ctypes.create_string_buffer(value, len(value)) for value in values]
        return values

    def load(self, cubin: bytes, kernel: str) -> Any:
        """As Bench's."""
        from tcprobe.run.gpu import MAX_DYNAMIC_SHARED

        assert self._launch is not None
        try:
            function = self._function(cubin, kernel)
            self._cuda.driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, self._launch.shared)
        except self._cuda.driver.CUDADriverError as error:
            raise LaunchError(f"the driver refuses {kernel}: {error}.") from None
        return function

    def at_once(self, function: Any) -> int:
        """As Bench's, by the driver."""
        assert self._launch is not None
        threads = math.prod(self._launch.block)
        count = self._cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        return int(count(function.ptr, threads, self._launch.shared))

    def lap(self, function: Any) -> Lap:
        """As Bench's: the medians of what the counters of those SMs say on which the blocks are."""
        if self._own is None:
            self._own = self._places()
        return self._timed(function, self._own, self._passed)

    def _places(self) -> Any:
        """The SMs on which blocks of the launch are put, where that is the same each time; else all."""
        from tcprobe.run.gpu import MAX_DYNAMIC_SHARED

        assert self._launch is not None
        self._cuda.driver.funcSetAttribute(self._mark.ptr, MAX_DYNAMIC_SHARED, self._launch.shared)
        place = int(self._marked.data.ptr).to_bytes(8, "little")
        seen = []
        for _ in range(MARKS):
            self._marked.fill(0)
            self._timed(self._mark, np.ones(MOST_SMS, bool), [ctypes.create_string_buffer(place, 8)])
            seen.append(self._marked.get() > 0)
        return seen[0] if all((one == seen[0]).all() for one in seen) else np.ones(MOST_SMS, bool)

    def _timed(self, function: Any, own: Any, passed: Sequence[Any]) -> Lap:
        """One launch, by the counters of some SMs."""
        from tcprobe.run import driver

        launch = self._launch
        assert launch is not None
        before, after = self._counts
        before.fill(0)
        after.fill(0)
        self._ticks(before, WAIT)
        code = driver.launch_kernel(function.ptr, launch.grid, launch.block, launch.shared, passed)
        if code:
            raise LaunchError(f"the launch is refused: {driver.result_name(code)}.")
        self._ticks(after, 0)
        try:
            self._wait(driver)
            counts = [array.get().astype(np.int64) for array in self._counts]
        except (self._cuda.runtime.CUDARuntimeError, self._cuda.driver.CUDADriverError) as error:
            raise LostError(f"faults: {str(error).partition(':')[0]}") from None
        there = (counts[0][:, 0] > 0) & (counts[1][:, 0] > 0)
        there = there & own if (there & own).any() else there
        return Lap(*map(float, np.median((counts[1] - counts[0])[there], axis=0)))

    def _ticks(self, out: Any, cycles: int) -> None:
        self._tick((self.sms, 1, 1), (1, 1, 1), (out, np.uint64(cycles)))

    def _wait(self, driver: Any) -> None:
        begun = time.monotonic()
        while driver.at_work():
            if time.monotonic() - begun > MOST_SECONDS:
                raise LostError(f"hangs: it did not end within {MOST_SECONDS:g} s")
            time.sleep(1e-5)
        self._cuda.runtime.deviceSynchronize()


def answer(request: Json, make: Callable[[str, Sequence[int]], Bench], say: Callable[[Json], None]) -> None:
    """What was asked, said as it comes."""
    kernel = request["kernel"]
    launch = launch_of(Path(request["launch"]), kernel, request["sizes"])
    if request["grid"]:
        launch = launch._replace(grid=tuple(request["grid"]))
    bench = make(request["arch"], request["cluster"])
    values = bench.prepare(launch)
    say(
        {
            "launch": {"grid": launch.grid, "block": launch.block, "rounds": launch.rounds, "shared": launch.shared},
            "values": [value.hex() for value in values],
            "device": bench.device,
            "sms": bench.sms,
        }
    )
    whole = None
    for name, path in request["cubins"]:
        say({"at": name})
        try:
            function = bench.load(Path(path).read_bytes(), kernel)
            whole = whole or function
            with _alone():
                taken = _in_turns(bench, function, whole)
            say({"timed": name, "at_once": bench.at_once(whole), **taken})
        except (LostError, LaunchError) as error:
            if whole is None and isinstance(error, LaunchError):
                raise
            say({"failed": name, "words": str(error)})
            if isinstance(error, LostError):
                break
    say({"end": True})


@contextmanager
def _alone() -> Iterator[None]:
    """A context that one process of a user is in at a time, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with Path(tempfile.gettempdir(), f"tcprobe-bench-{os.getuid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _in_turns(bench: Bench, function: Any, whole: Any) -> Json:
    """Cycles of launches, of a kernel and of the whole one in turns; nanoseconds of the whole one's."""
    laps: list[list[Lap]] = [[], []]
    for number in range(WARMED + TIMES):
        for place, each in enumerate((function, whole)):
            lap = bench.lap(each)
            if number >= WARMED:
                laps[place].append(lap)
    cycles = [[lap.cycles for lap in own] for own in laps]
    return {"cycles": cycles[0], "whole": cycles[1], "ns": [lap.ns for lap in laps[1]]}


def main(make: Callable[[str, Sequence[int]], Bench] = Gpu) -> None:
    """Answer one request."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the launch file prints
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_reader, daemon=True).start()

    def say(message: Json) -> None:
        sink.write(json.dumps(message).encode() + b"\n")
        sink.flush()

    try:
        answer(request, make, say)
    except Exception as error:
        known = understood(error)
        if debugging() and not isinstance(known, LaunchError | UsageError):
            raise
        say({"error": type(known).__name__, "words": "" if isinstance(known, StarvedError) else str(known)})
    sink.flush()
    os._exit(0)  # what runs on the GPU is no reason to wait


def _end_with_reader() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
