"""What a worker's job is made of: chunks are compiled ahead, and what is run is let go."""

import gc
import weakref
from collections import deque

from cost_model import LOAD, MMA

from tcprobe.errors import ProbeError
from tcprobe.probes import dialogues
from tcprobe.run.worker import CHUNKS_KEPT, Job, plan_of

KIND = "cost"
MOVES = [id_ for id_ in dialogues(KIND) if id_.startswith(("ld.shared", "st.shared", "shfl"))]


class Loaded:
    """A backend whose kernels are there or not; `seen` has what is loaded at each run."""

    def __init__(self):
        self.kernels, self.most = set(), 0

    def load(self, kernels):
        self.kernels |= {kernel.name for kernel in kernels}
        self.most = max(self.most, len(self.kernels))
        return {}

    def unload(self, names):
        self.kernels -= set(names)

    def timed_code(self, kernel):
        raise AssertionError

    def shared_bytes(self):
        return 200 << 10

    def run(self, launches):
        assert {launch.kernel.name for launch in launches} <= self.kernels
        raise ProbeError("nothing is timed.")


class Sink:
    def write(self, message):
        """Nobody listens."""

    def flush(self):
        """As above."""


def test_texts_of_a_dialogue_go_with_its_plan():
    shared = dialogues(KIND)[MMA]
    before = set(vars(shared))
    plan = plan_of(KIND, MMA)
    assert plan.kernels
    assert set(vars(shared)) == before
    gone = weakref.ref(plan.experiment)
    del plan
    gc.collect()
    assert gone() is None


def test_what_ran_is_unloaded_and_few_chunks_are_held():
    backend = Loaded()
    waiting = deque([[plan_of(KIND, id_)] for id_ in MOVES])
    each = max(len(chunk[0].kernels) for chunk in waiting)
    Job(backend, Sink()).work(waiting, backend, careful=False)
    assert not waiting
    assert not backend.kernels
    assert backend.most <= CHUNKS_KEPT * each < len(MOVES) * each


def test_a_kernel_stays_while_another_chunk_wants_it():
    """Every run finds its kernels, though chunks before it had the same ones."""
    backend = Loaded()
    waiting = deque([[plan_of(KIND, LOAD)] for _ in range(20)])
    Job(backend, Sink()).work(waiting, backend, careful=False)
    assert not backend.kernels


def test_a_careful_job_compiles_everything_first():
    backend = Loaded()
    waiting = deque([[plan_of(KIND, id_)] for id_ in MOVES])
    every = sum(len(chunk[0].kernels) for chunk in waiting)
    Job(backend, Sink()).work(waiting, backend, careful=True)
    assert backend.most == every
