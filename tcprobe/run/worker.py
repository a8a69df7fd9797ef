"""The process that owns a backend, such as the GPU (`tcprobe.run.live`). It can be killed and replaced.

It says hello with its devices, takes one job {device, kind, experiments, careful, folder}, and answers event by event:

    hello    devices                            compiled  (all kernels that will be)
    begin    experiment                         reading   experiment, ptx, arrays
    refused  experiment, ptx, words             unsound   experiment, ptx, words: outputs contradict each other
    fault    words, experiment if one ran: the context is lost
    hangs    words, experiment: a kernel does not end
    bug      words, experiment if one ran: an error that nobody expects
    unfit    words, error: nothing can run here, by the error's class
    done     stages (seconds), peak_mb

A message is a JSON header and raw arrays, framed, on a pipe: nothing in it can be executed.

Three things go on at once: threads compile the kernels chunk by chunk, the main thread runs experiments as soon as
their chunk is compiled, and a few threads decode outputs. The texts of a dialogue's kernels are made and freed with its
chunk, and compilers are at most CHUNKS_KEPT ahead. A careful job compiles everything first, so that it is certain
whether a compilation or a launch lost the process.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING

import numpy as np

from tcprobe.errors import InternalError, ProbeError, StarvedError, TcprobeError, debugging, understood
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Array, Bytes
from tcprobe.layout.table import Table
from tcprobe.probes import experiments, of_kind
from tcprobe.probes.experiment import Bench, Dialogue, Experiment, Readout, TimedCode, ptx_hash
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.run.backend import OUTPUTS_KEPT, Backend, BackendBugError, BackendFaultError, Device
from tcprobe.store.choose import Layers, alone, over_published
from tcprobe.store.finding import TABLE
from tcprobe.store.results import published
from tcprobe.system.children import Pool
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap


Arrays = dict[str, Array]
_SIZE = struct.Struct("<I")


def send(stream: IO[bytes], header: dict[str, object], arrays: Arrays | None = None) -> None:
    """Write one message."""
    arrays = {name: np.ascontiguousarray(a) for name, a in (arrays or {}).items()}
    shapes = {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()}
    text = json.dumps({"header": header, "arrays": shapes}).encode()
    stream.write(b"".join([_SIZE.pack(len(text)), text, *(a.tobytes() for a in arrays.values())]))
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Json, Arrays] | None:
    """Read one message; None at the end of the stream, also in the middle of a message."""
    size = _read(stream, _SIZE.size)
    text = size and _read(stream, _SIZE.unpack(size)[0])
    if not text:
        return None
    message = json.loads(text)
    arrays = {}
    for name, (kind, shape) in message["arrays"].items():
        dtype = np.dtype(kind)
        raw = _read(stream, dtype.itemsize * int(np.prod(shape)))
        if raw is None:
            return None
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return message["header"], arrays


def _read(stream: IO[bytes], count: int) -> bytes | None:
    raw = stream.read(count)
    return raw if len(raw) == count else None


CHUNK = 48  # multiplies that are compiled together, while the chunk before them runs


@dataclass(frozen=True)
class Planned:
    """An experiment with its launches (a dialogue has none yet), its kernels by name, and their hash.

    The kernels' texts are made when they are first needed, and live as long as this object.
    """

    experiment: Experiment | Dialogue
    launches: Sequence[Launch]

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """By name, each once."""
        if isinstance(self.experiment, Dialogue):
            return {kernel.name: kernel for kernel in self.experiment.kernels()}
        return {launch.kernel.name: launch.kernel for launch in self.launches}

    @cached_property
    def ptx(self) -> str:
        """The hash of all texts."""
        return ptx_hash(list(self.kernels.values()))

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs, by which the work of running and decoding is estimated."""
        return sum(launch.output_bytes for launch in self.launches)

    @property
    def target(self) -> str:
        """The target with a suffix that it needs, such as `sm_120a`; "" if it needs none."""
        experiment = self.experiment
        target = experiment.target if isinstance(experiment, Dialogue) else experiment.fragments[0].target
        return "" if target.name[-1].isdigit() else target.name

    @property
    def about(self) -> dict[str, object]:
        """What all messages about the experiment have."""
        return {"experiment": self.experiment.id, "ptx": self.ptx}

    def run(self, bench: Bench) -> Callable[[], Readout]:
        """Run it; returns a function that decodes the outputs, which another thread may call."""
        experiment = self.experiment
        if isinstance(experiment, Dialogue):
            reading = experiment.measure(bench)
            return lambda: reading
        outputs = bench.run(self.launches)
        return lambda: experiment.decode(self.launches, outputs)


def plan_of(kind: str, id_: str) -> Planned:
    """An experiment's plan. It has a copy of a dialogue, so that what the dialogue caches is freed with the plan."""
    experiment = of_kind(kind)[id_]
    return Planned(copy(experiment), []) if isinstance(experiment, Dialogue) else _plan_with_launches(experiment.id)


@cache
def _plan_with_launches(id_: str) -> Planned:
    """The plan of an experiment whose launches are known beforehand, made once."""
    return Planned(experiments()[id_], experiments()[id_].launches())


def chunks(plans: Sequence[Planned]) -> list[list[Planned]]:
    """Chunks: first the experiments that others need (wmma fragments), then the rest, the largest first, CHUNK in each.

    Those that need a special target (`sm_90a`) have chunks of their own at the end.
    """
    late = sorted((plan for plan in plans if not plan.experiment.early), key=lambda plan: -plan.output_bytes)
    parts = [[plan for plan in late if plan.target == target] for target in sorted({plan.target for plan in late})]
    late_parts = [part[start : start + CHUNK] for part in parts for start in range(0, len(part), CHUNK)]
    return [chunk for chunk in ([plan for plan in plans if plan.experiment.early], *late_parts) if chunk]


def names(chunk: Sequence[Planned]) -> set[str]:
    """The names of a chunk's kernels."""
    return {name for plan in chunk for name in plan.kernels}


_KEPT: list[Job] = []  # to take a lost device apart, as Python would at a function's end, prints a lot
CHUNKS_AHEAD = 4  # compiled and read at a time, so that no compiler waits for the last kernel of a chunk
CHUNKS_KEPT = 6  # compiled or being compiled, which have not run yet
Message = tuple[dict[str, object], Arrays]


class WorkerBench:
    """The bench of dialogues: an open backend, and the known tables of its device."""

    def __init__(self, backend: Backend, device: Device, folder: Path | None) -> None:
        self._backend, self._folder = backend, folder
        self.device = arch.arch(device.arch)

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        return self._backend.run(launches)

    def known_table(self, fragment: Fragment) -> Table | None:
        """The table of a fragment on the device, from the folder, else a published one; None if there is none."""
        measurement = self._layers.choose(fragment, [self.device.name])
        return measurement.table(fragment) if measurement else None

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """The opcodes that a kernel times, from its machine code."""
        return self._backend.timed_code(kernel)

    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM has."""
        return self._backend.shared_bytes()

    def map_result(self, tensor_map: TensorMap) -> str:
        """The name of the driver's result code for a tensor map."""
        return self._backend.map_result(tensor_map)

    @cached_property
    def _layers(self) -> Layers:
        return over_published(self._folder) if self._folder else alone(published())


class Job:
    """One job on an open backend; `stages` collects the seconds that the main thread spends."""

    def __init__(self, backend: Backend, sink: IO[bytes]) -> None:
        self.backend, self.sink = backend, sink
        self.stages: dict[str, float] = {}
        self._decoders = Pool(OUTPUTS_KEPT - 1)
        self._decoding: deque[Future[Message]] = deque()
        self._waiting_kernels: Counter[str] = Counter()  # kernels of chunks that have not run yet
        self._counting = threading.Lock()

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        """A context whose time counts towards `stage`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - start

    def work(self, waiting: deque[list[Planned]], bench: WorkerBench, careful: bool) -> None:
        """Measure chunks of experiments, each as soon as it is compiled; takes them out of `waiting`, to free them."""
        compiler = Pool(CHUNKS_AHEAD)
        compiled: deque[tuple[list[Planned], Future[dict[str, str]]]] = deque()
        while waiting or compiled:
            while waiting and (careful or len(compiled) < CHUNKS_KEPT):
                compiled.append((waiting[0], compiler.submit(self._load, waiting.popleft())))
            if careful:
                _ = [future.exception() for _, future in compiled]
            chunk, refused = compiled.popleft()
            with self.clock("compile"):
                words = refused.result()
            if not waiting and all(future.done() for _, future in compiled):
                send(self.sink, {"event": "compiled"})
            for plan in chunk:
                self._measure(plan, words, bench)
            with self._counting:  # kernels of other chunks, compiled or being compiled, stay
                self._waiting_kernels.subtract(names(chunk))
                self.backend.unload(name for name in names(chunk) if not self._waiting_kernels[name])
        self._drain()
        send(self.sink, {"event": "done", "stages": self.stages, "peak_mb": peak_memory()})

    def _load(self, chunk: Sequence[Planned]) -> dict[str, str]:
        """Compile a chunk; returns the compiler's words by name of each refused kernel."""
        with self._counting:
            kernels = {name: kernel for plan in chunk for name, kernel in plan.kernels.items()}
            self._waiting_kernels.update(kernels.keys())
        return self.backend.load(list(kernels.values()))

    def _measure(self, planned: Planned, refused: Mapping[str, str], bench: WorkerBench) -> None:
        """Run one experiment and leave its outputs to the decoders."""
        words = next((refused[name] for name in planned.kernels if name in refused), None)
        if words:
            send(self.sink, {"event": "refused", "words": words, **planned.about})
            return
        send(self.sink, {"event": "begin", **planned.about})
        self._drain(keep=OUTPUTS_KEPT - 2)
        try:
            with self.clock("run"):
                decode = planned.run(bench)
        except BackendFaultError as error:
            error.experiment = planned.experiment.id
            self._drain()
            raise
        except ProbeError as error:
            send(self.sink, {"event": "unsound", "words": str(error), **planned.about})
            return
        except TcprobeError:
            raise
        except Exception as error:
            bug = BackendBugError(str(_fault(error)))
            bug.experiment = planned.experiment.id
            self._drain()
            raise bug from None
        self._decoding.append(self._decoders.submit(_decode, planned, decode))

    def _drain(self, keep: int = 0) -> None:
        """Send decoded readings, the oldest first, until `keep` are left."""
        with self.clock("decode"):
            while len(self._decoding) > keep:
                send(self.sink, *self._decoding.popleft().result())


def serve(make: Callable[[], Backend], requests: IO[bytes], sink: IO[bytes], method: str | None) -> None:
    """Serve one job on the backend that `make` makes; while waiting for the job, plan the experiments of `method`."""
    jobs: Queue[tuple[Json, Arrays]] = Queue()
    begun = threading.Event()
    try:
        threading.Thread(target=_listen, args=(requests, jobs), daemon=True).start()
        start = time.perf_counter()
        job = Job(make(), sink)
        _KEPT.append(job)
        job.stages["import"] = time.perf_counter() - start
        if method:
            threading.Thread(target=_plan, args=(method, begun), daemon=True).start()
        with job.clock("devices"):
            send(sink, {"event": "hello", "devices": [d.to_json() for d in job.backend.devices()]})
        header, _ = jobs.get()
        with job.clock("context"):
            job.backend.open(header["device"])
        begun.set()
        with job.clock("plan"):
            plans = deque(chunks([plan_of(header["kind"], id_) for id_ in header["experiments"]]))
        folder = header["folder"] and Path(header["folder"])
        job.work(plans, WorkerBench(job.backend, job.backend.devices()[header["device"]], folder), header["careful"])
    except BackendFaultError as error:
        send(sink, {"event": error.event, "words": str(error), "experiment": error.experiment})
    except BrokenPipeError:
        raise
    except Exception as error:
        reported = _error_to_report(error)
        send(sink, {"event": "unfit", "words": str(reported), "error": type(reported).__name__})


def _error_to_report(error: Exception) -> TcprobeError:
    """The error to report for an exception; raises unexpected ones again while debugging."""
    reported = understood(error)
    if debugging() and isinstance(reported, InternalError):
        raise error
    return reported


def _fault(error: Exception) -> TcprobeError:
    """As `_error_to_report`, for an error of an experiment; StarvedError, for which none is to blame, is raised."""
    reported = _error_to_report(error)
    if isinstance(reported, StarvedError):
        raise reported
    return reported


def _listen(requests: IO[bytes], jobs: Queue[tuple[Json, Arrays]]) -> None:
    """Receive the job; end this process when the other one ends, even if a kernel hangs or no job came."""
    job = receive(requests)
    if job:
        jobs.put(job)
        requests.read()
    os._exit(1)


def _plan(method: str, begun: threading.Event) -> None:
    """Plan experiments until the job has come, which plans those that are missing."""
    with suppress(Exception):  # the job meets the error, and reports it
        for id_, experiment in experiments().items():
            if begun.is_set():
                return
            if method in experiment.methods:
                _ = plan_of(TABLE, id_).ptx  # which makes all texts


def _decode(planned: Planned, decode: Callable[[], Readout]) -> Message:
    try:
        return {"event": "reading", **planned.about}, decode()
    except ProbeError as error:
        return {"event": "unsound", "words": str(error), **planned.about}, {}
    except Exception as error:
        return {"event": "unsound", "words": str(_fault(error)), **planned.about}, {}


def peak_memory() -> float | None:
    """Largest resident size of this process so far, in MB; None if the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main(make: Callable[[], Backend], method: str | None = None) -> None:
    """Serve on standard input and output, planning the experiments of `method`; other output goes to stderr."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(BrokenPipeError):  # nobody listens any more
        serve(make, sys.stdin.buffer, sink, method)
        sink.flush()
    os._exit(0)  # the context dies with the process; tearing it down in order takes longer
