"""The process that owns the GPU: `python -m tcprobe.backends.worker`. It can be killed and replaced.

It says hello with its devices, takes one job {device, experiments}, compiles all kernels together, and
answers event by event:

    hello   devices                        compiled  number of refused kernels
    begin   experiment                     reading   experiment, ptx, arrays
    refused experiment, words              unsound   experiment, words (outputs contradict each other)
    fault   experiment, words (context lost; the process ends)    unfit  words, exit code (nothing can run)
    done    stages
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from tcprobe.backends import OUTPUTS_KEPT, Backend, BackendFaultError
from tcprobe.backends.wire import Arrays, receive, send
from tcprobe.errors import ProbeError, TcprobeError
from tcprobe.probes import Experiment, experiments, ptx_hash
from tcprobe.probes.ptx import Bytes, Kernel, Launch

Message = tuple[dict[str, object], Arrays]


class Clock:
    """Seconds spent per stage, in the thread that measures; `decode` is what it waits for."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Count the time inside towards `stage`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Planned:
    """An experiment with its launches and the hash of its kernels."""

    experiment: Experiment
    launches: Sequence[Launch]
    ptx: str

    @classmethod
    def of(cls, experiment: Experiment) -> Planned:
        """Plan an experiment."""
        launches = experiment.launches()
        return cls(experiment, launches, ptx_hash(list(kernels_of(launches).values())))


def kernels_of(launches: Sequence[Launch]) -> dict[str, Kernel]:
    """The kernels of launches by name, each once."""
    return {launch.kernel.name: launch.kernel for launch in launches}


def serve(make: Callable[[], Backend], source: IO[bytes], sink: IO[bytes]) -> None:
    """Serve one job on the backend that `make` makes."""
    clock = Clock()
    try:
        with clock("import"):
            backend = make()
        with clock("devices"):
            send(sink, {"event": "hello", "devices": [d.to_json() for d in backend.devices()]})
        job = receive(source)
        if job is None:
            return
        threading.Thread(target=_outlive_nobody, args=(source,), daemon=True).start()
        _work(backend, job[0], sink, clock)
    except BackendFaultError as error:
        send(sink, {"event": "fault", "words": str(error)})
    except TcprobeError as error:
        send(sink, {"event": "unfit", "words": str(error), "exit_code": error.exit_code})


def _work(backend: Backend, job: Mapping[str, Any], sink: IO[bytes], clock: Clock) -> None:
    """Plan while the context is created, compile, then run one experiment while the last ones are decoded."""
    pool = ThreadPoolExecutor(OUTPUTS_KEPT - 1)
    planning = pool.submit(lambda: [Planned.of(experiments()[id_]) for id_ in job["experiments"]])
    with clock("context"):
        backend.open(job["device"])
    with clock("plan"):
        planned = planning.result()
    with clock("compile"):
        refused = _load(backend, planned)
    send(sink, {"event": "compiled", "refused": len(refused)})
    decoding: deque[Future[Message]] = deque()
    for plan in planned:
        words = next((refused[name] for name in kernels_of(plan.launches) if name in refused), None)
        if words:
            send(sink, {"event": "refused", "experiment": plan.experiment.id, "words": words, "ptx": plan.ptx})
            continue
        with clock("send"):
            send(sink, {"event": "begin", "experiment": plan.experiment.id})
        with clock("decode"):
            _drain(decoding, sink, keep=OUTPUTS_KEPT - 2)
        try:
            with clock("run"):
                outputs = backend.run(plan.launches)
        except BackendFaultError:
            _drain(decoding, sink)
            raise
        decoding.append(pool.submit(_decode, plan, outputs))
    with clock("decode"):
        _drain(decoding, sink)
    send(sink, {"event": "done", "stages": clock.stages})


def _load(backend: Backend, planned: Sequence[Planned]) -> dict[str, str]:
    """All kernels in one go; those of a special target (`sm_120a`) apart, so that the rest keeps a plain one."""
    kernels: dict[str, Kernel] = {}
    for plan in planned:
        kernels |= kernels_of(plan.launches)
    special = [k for k in kernels.values() if not k.target.name[-1].isdigit()]
    return backend.load([k for k in kernels.values() if k not in special]) | backend.load(special)


def _decode(plan: Planned, outputs: Sequence[Bytes]) -> Message:
    about: dict[str, object] = {"experiment": plan.experiment.id, "ptx": plan.ptx}
    try:
        return {"event": "reading", **about}, plan.experiment.decode(plan.launches, outputs)
    except ProbeError as error:
        return {"event": "unsound", "words": str(error), **about}, {}


def _drain(decoding: deque[Future[Message]], sink: IO[bytes], keep: int = 0) -> None:
    """Send what is decoded, oldest first, until `keep` are left."""
    while len(decoding) > keep:
        send(sink, *decoding.popleft().result())


def _outlive_nobody(source: IO[bytes]) -> None:
    """End with the process that gave the job, even while a kernel hangs."""
    source.read()
    os._exit(1)


def main(make: Callable[[], Backend]) -> None:
    """Serve on standard input and output; whatever else prints goes to standard error."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(make, sys.stdin.buffer, sink)
    sink.flush()
    os._exit(0)  # the context dies with the process; tearing it down in order takes longer


if __name__ == "__main__":
    from tcprobe.backends.gpu import Gpu

    main(Gpu)
