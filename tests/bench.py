"""Machines that answer for a GPU, and a bench around them in this process: what a dialogue concludes there."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tcprobe.fit.boxes import BoxRule
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import access
from tcprobe.isa.tensor_map import SPANS
from tcprobe.layout import banks as model
from tcprobe.layout.banks import access_cycles, designed_rules, is_spread, lookups
from tcprobe.layout.swizzle import Swizzle
from tcprobe.layout.table import selected
from tcprobe.probes import banks, dialogues
from tcprobe.probes import tensor_maps as boxes
from tcprobe.probes.experiment import Context, kernels, ptx_hash
from tcprobe.probes.ptx import POISON
from tcprobe.references.shared_memory.tensor_map import refusing_rules
from tcprobe.run.backend import BackendFaultError, Device
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude, provenance
from tcprobe.run.worker import WorkerBench
from tcprobe.store import findings
from tcprobe.store.cell import stated
from tcprobe.store.documents import seal
from tcprobe.store.finding import PROVENANCE, Finding
from tcprobe.store.results import Results, published

MOST = 232448  # bytes of shared memory of a block on sm_90
DEVICE = Device(0, "a machine", "sm_90", "1", "13.0", "none")
WINDOW = 1024  # where shared memory begins
OURS = {0: BoxRule(None, Swizzle(0, 4, 3))} | {n: BoxRule(span, Swizzle(n, 4, 3)) for n, span in SPANS.items()}


def concluded(dialogue, machine, known=None):
    """The body that a dialogue with a machine ends in; `known` has the tables, by default what is published."""
    desk = bench(dialogue, machine)
    return dialogue.conclude(dialogue.measure(desk), Context(desk.device, known or desk.known_table))


def bench(dialogue, machine):
    """The worker's own, with the dialogue's kernels loaded."""
    machine.open(0)
    assert machine.load(kernels(dialogue)) == {}
    return WorkerBench(machine, machine.devices()[0], None)


def found(dialogue, machine):
    """The finding, checked as a saved one is."""
    desk, device = bench(dialogue, machine), machine.devices()[0]
    origin = provenance(device, ptx_hash(kernels(dialogue)))
    return conclude(dialogue, dialogue.measure(desk), Context(desk.device, desk.known_table), device.method, origin)


def save(folder, kind, bodies, arch="sm_90", **provenance):
    """Save bodies by subject as findings of `folder`."""
    origin = dict.fromkeys(PROVENANCE, "text") | provenance
    for subject, body in bodies.items():
        findings.write(Results(folder), Finding(kind, subject, arch, "live", "measured", origin, body))


def document(folder, name, parts, arch="sm_90", **changes):
    """Save parts as the document of an arch that an earlier tcprobe wrote; its kind is its name, but for `tma`."""
    path = Path(folder) / arch / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"arch": arch, "method": "live", "provenance": dict.fromkeys(PROVENANCE, "text"), **parts} | changes
    path.write_text(seal({"tma": "tensor maps"}.get(name, name), body))


def run(kind, machine, folder, names=None):
    """Save what all dialogues of a kind, or those of `names`, conclude on a machine."""
    for dialogue in [dialogues(kind)[name] for name in names or dialogues(kind)]:
        findings.write(Results(folder), found(dialogue, machine))


class Machine:
    """A GPU; `loaded` are its kernels by name."""

    def __init__(self):
        self.loaded = {}

    def devices(self):
        return [DEVICE]

    def open(self, index):
        assert index == 0

    def shared_bytes(self):
        return 228 << 10

    def map_result(self, made):
        return "CUDA_ERROR_INVALID_VALUE" if refusing_rules(made) else "CUDA_SUCCESS"

    def load(self, kernels):
        self.loaded |= {kernel.name: kernel for kernel in kernels}
        return {}

    def unload(self, names):
        for name in names:
            del self.loaded[name]

    def run(self, launches):
        return [self.one(launch) for launch in launches]


class Live:
    """A machine that says of itself what a GPU does."""

    def devices(self):
        return [replace(one, method="live") for one in super().devices()]


class TensorMemoryCore(Live, Emulator):
    """A GPU with tensor memory, where everything is as it is documented."""

    def __init__(self):
        super().__init__({}, name="sm_103")

    def table(self, fragment):
        return stated(fragment, arch("sm_103"))[1].meant


class Clock(Machine):
    """A GPU whose clock follows `rules`, with a start that takes long, and some noise."""

    def __init__(self, rules=None, noise=0.0, tags=None):
        super().__init__()
        self.tags = tags
        self.rules = dict(designed_rules()) | (rules or {})
        self.noise = np.random.default_rng(0), noise
        self.known = {}

    def one(self, launch):
        assert self.loaded[launch.kernel.name] == launch.kernel
        row = access(launch.kernel.op.access)
        count = launch.grid[0]
        address, source = (raw.view(np.uint32).reshape(-1, 32)[:count].astype(np.int64) for raw in launch.inputs[:2])
        assert not row.has_source or launch.inputs[0].size % banks.ALIGNED == 0
        assert launch.grid == (len(address), 1, 1)
        assert launch.threads == 512
        assert not launch.inputs[3].any()
        self.check(row, address, source, launch)
        each = self.cycles(row, address, source)
        rng, size = self.noise
        found = np.zeros((len(address), 2), np.uint32)
        accesses_made = banks.WARPS * banks.UNROLL * launch.ldm
        found[:, 0] = 700 + each * accesses_made + rng.normal(0, size, len(each)).clip(-500, 10_000)
        return found.view(np.uint8).reshape(-1)

    def cycles(self, row, address, source):
        """As the rule says; runs of one launch are one computation."""
        key = (row.name, address.tobytes(), source.tobytes())
        if key not in self.known:
            rule = self.rules[row.name]
            address = np.where(address == banks.IDLE_LANE, -1, address)
            found = model.Judge(row, rule).cycles(address, source if rule.passes == "order" else None)
            if self.tags and row.has_source:
                far = lookups(self.tags, np.where(address < 0, -1, source))
                found = access_cycles(found, far, is_spread(address))
            self.known = {key: found}
        return self.known[key]

    @staticmethod
    def check(row, address, source, launch):
        """Nothing that would fault on a GPU."""
        active = address != banks.IDLE_LANE
        assert (address[active] % row.bytes == 0).all()
        assert (address[active] <= launch.shared_bytes - row.bytes).all()
        assert launch.shared_bytes <= MOST
        assert (source % row.bytes == 0).all()
        assert not row.has_source or (source <= launch.inputs[2].size - row.bytes).all()
        assert active.all() or not row.is_matrix


class Copier(Machine):
    """A GPU whose swizzle modes follow `modes`; `mute`: bases whose boxes never come. Misaligned bases lose it."""

    def __init__(self, modes=None, mute=()):
        super().__init__()
        self.modes, self.mute = OURS | (modes or {}), mute

    def one(self, launch):
        op, count = launch.kernel.op, launch.grid[0]
        assert launch.kernel.name in self.loaded
        assert len(launch.maps) == count
        given, rows = launch.inputs[0].ravel(), launch.inputs[1].reshape(-1).view(np.uint32).reshape(count, 8)
        out = np.full(launch.output_bytes, POISON, np.uint8)
        for block, (made, row) in enumerate(zip(launch.maps, rows.tolist(), strict=True)):
            base, size = row[:2]
            if base % 128:
                raise BackendFaultError("misaligned address")
            assert size == made.bytes
            case = boxes.BoxCase(made, tuple(row[2 : 2 + op.rank]), base)
            self.copy(op.direction, case, block, given, out)
        return out

    def copy(self, direction, case, block, given, out):
        made = case.map
        where = self.modes[made.swizzle](WINDOW + case.base, made.rows, made.row_bytes) - WINDOW
        if direction == "store":
            assert made.address == block * boxes.TENSOR
            out[made.address + boxes.offsets(case)] = given[where]
            return
        area = out[block * (boxes.HEADER + boxes.AREA) :][: boxes.HEADER + boxes.AREA]
        area[: boxes.HEADER].view(np.uint32)[:2] = case.base not in self.mute, WINDOW
        area[boxes.HEADER :] = boxes.UNUSED
        if case.base not in self.mute:
            area[boxes.HEADER + where] = given[boxes.offsets(case)]


class TensorCore(Emulator):
    """The published tensor core of sm_90. Selectors that PTX does not give read the lanes of the last that it gives."""

    def __init__(self):
        super().__init__({}, name="sm_90")

    def devices(self):
        return [DEVICE]

    def table(self, fragment):
        table = published().measurement("sm_90", "live", fragment.experiment).tables[fragment.operand]
        if fragment.operand != "e":
            return table
        known = [table.selection(number) for number in fragment.selectors]
        return selected([*known, *[known[-1]] * (4 - len(known))])

    read = table
