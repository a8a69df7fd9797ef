"""The process that owns the GPU (`tcprobe.run.live`). It can be killed and replaced.

It says hello with its devices, takes one job {device, kind, experiments, careful, folder}, and answers event by event:

    hello    devices                            compiled  (all kernels that will be)
    begin    experiment                         reading   experiment, ptx, arrays
    refused  experiment, ptx, words             unsound   experiment, ptx, words: outputs contradict each other
    fault    words: the context is lost         bug       words: an error that nobody expects
    unfit    words, error: nothing can run here, by the error's class
    done     stages (seconds), peak_mb

Three things go on at once: threads compile the kernels chunk by chunk, the main thread runs experiments as soon as
their chunk is compiled, and a few threads decode outputs. The texts of a dialogue's kernels are made and freed with its
chunk, and compilers are at most CHUNKS_KEPT ahead. A careful job compiles everything first, so that it is certain
whether a compilation or a launch lost the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING

from tcprobe.errors import InternalError, ProbeError, StarvedError, TcprobeError, debugging, understood
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Bytes
from tcprobe.layout.table import Table
from tcprobe.probes import experiments
from tcprobe.probes.experiment import Readout, TimedCode
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.run.backend import OUTPUTS_KEPT, Backend, BackendBugError, BackendFaultError, Device
from tcprobe.run.plans import Planned, chunks, kernels, names, plan_of
from tcprobe.run.wire import Arrays, receive, send
from tcprobe.store.choose import Layers, alone, over_published
from tcprobe.store.measurement import TABLE
from tcprobe.store.results import published
from tcprobe.system.pools import Pool
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap

_KEPT: list[Job] = []  # to take a lost device apart, as Python would at a function's end, prints a lot
CHUNKS_AHEAD = 4  # compiled and read at a time, so that no compiler waits for the last kernel of a chunk
CHUNKS_KEPT = 6  # compiled or being compiled, which have not run yet
Message = tuple[dict[str, object], Arrays]


class Desk:
    """The bench of dialogues: an open backend, and the known tables of its device."""

    def __init__(self, backend: Backend, device: Device, folder: Path | None) -> None:
        self._backend, self._folder = backend, folder
        self.device = arch.arch(device.arch)

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""
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

    def work(self, waiting: deque[list[Planned]], bench: Desk, careful: bool) -> None:
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
            self._unload(chunk)
        self._drain()
        send(self.sink, {"event": "done", "stages": self.stages, "peak_mb": peak_memory()})

    def _load(self, chunk: Sequence[Planned]) -> dict[str, str]:
        """Compile a chunk; returns the compiler's words by name of each refused kernel."""
        with self._counting:
            self._waiting_kernels.update(names(chunk))
        return self.backend.load(kernels(chunk))

    def _unload(self, chunk: Sequence[Planned]) -> None:
        """Forget a chunk's kernels, except those of other chunks that are compiled or being compiled."""
        with self._counting:
            self._waiting_kernels.subtract(names(chunk))
            self.backend.unload(name for name in names(chunk) if not self._waiting_kernels[name])

    def _measure(self, planned: Planned, refused: Mapping[str, str], bench: Desk) -> None:
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
        except BackendFaultError:
            self._drain()
            raise
        except ProbeError as error:
            send(self.sink, {"event": "unsound", "words": str(error), **planned.about})
            return
        except TcprobeError:
            raise
        except Exception as error:
            self._drain()
            raise BackendBugError(str(_fault(error))) from None
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
        job.work(plans, Desk(job.backend, job.backend.devices()[header["device"]], folder), header["careful"])
    except BackendFaultError as error:
        send(sink, {"event": error.event, "words": str(error)})
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
                plan_of(TABLE, id_).prepare()


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
