"""Tensor maps: a machine with any swizzle is read back as it, refusals are answers, and lost boxes cost themselves."""

import io
import json
import subprocess

import numpy as np
import pytest

from tcprobe.errors import EnvironmentUnfitError, ProbeError
from tcprobe.fit.boxes import BoxRule, PlacedBox, fit_boxes, misfits, rules
from tcprobe.isa.arch import arch
from tcprobe.isa.tensor_map import SPANS, SWIZZLES
from tcprobe.layout.swizzle import Swizzle
from tcprobe.probes import tensor_map_cases
from tcprobe.probes import tensor_maps as probe
from tcprobe.probes.ptx import POISON
from tcprobe.probes.tensor_map_cases import all_boxes, boxes, encodings, misaligned
from tcprobe.references.shared_memory import tma
from tcprobe.references.shared_memory.tensor_map import broken, packed, refused, rules_on
from tcprobe.run import tensor_map_worker as worker
from tcprobe.run import tensor_maps as live
from tcprobe.run.backend import BackendFaultError, Device
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble

WINDOW = 1024  # where shared memory begins
DEVICE = Device(0, "a machine", "sm_90", "1", "13.0", "none")
OURS = {0: BoxRule(None, Swizzle(0, 4, 3))} | {n: BoxRule(span, Swizzle(n, 4, 3)) for n, span in SPANS.items()}


class Machine:
    """A GPU whose modes follow `modes`; `faults`: bases that lose the device; `mute`: bases whose boxes never come."""

    def __init__(self, modes=None, faults=(), mute=()):
        self.modes, self.faults, self.mute, self.loaded = OURS | (modes or {}), faults, mute, set()

    def devices(self):
        return [DEVICE]

    def open(self, index):
        assert index == 0

    def encoded(self, made):
        return "CUDA_ERROR_INVALID_VALUE" if refused(made) else "CUDA_SUCCESS"

    def load(self, kernels):
        self.loaded |= {kernel.name for kernel in kernels}
        return {}

    def run(self, launches):
        return [self.one(launch) for launch in launches]

    def one(self, launch):
        op, count = launch.kernel.op, launch.grid[0]
        assert launch.kernel.name in self.loaded
        assert len(launch.maps) == count
        given, rows = launch.inputs[0].ravel(), launch.inputs[1].reshape(-1).view(np.uint32).reshape(count, 8)
        out = np.full(launch.output_bytes, POISON, np.uint8)
        for block, (made, row) in enumerate(zip(launch.maps, rows.tolist(), strict=True)):
            base, size = row[:2]
            if base in self.faults or base % 128:
                raise BackendFaultError("misaligned address")
            assert size == made.bytes
            case = probe.BoxCase(made, tuple(row[2 : 2 + op.rank]), base)
            self.copy(op.direction, case, block, given, out)
        return out

    def copy(self, direction, case, block, given, out):
        made = case.map
        where = self.modes[made.swizzle](WINDOW + case.base, made.rows, made.row_bytes) - WINDOW
        if direction == "store":
            assert made.address == block * probe.TENSOR
            out[made.address + probe.offsets(case)] = given[where]
            return
        area = out[block * (probe.HEADER + probe.AREA) :][: probe.HEADER + probe.AREA]
        area[: probe.HEADER].view(np.uint32)[:2] = case.base not in self.mute, WINDOW
        area[probe.HEADER :] = probe.UNUSED
        if case.base not in self.mute:
            area[probe.HEADER + where] = given[probe.offsets(case)]


def followed(machine):
    return live.follow(0, lambda job: answered(machine, job))


def answered(machine, job):
    try:
        return worker.work(machine, dict(job))
    except BackendFaultError as error:
        raise live.BoxesLostError(str(error)) from None


FEW = boxes()[::6]


@pytest.fixture
def few(monkeypatch):
    """Some of the boxes, and the misaligned ones: for what does not hang on their number."""
    chosen = (*FEW, *misaligned())
    for module in (live, tensor_map_cases):
        monkeypatch.setattr(module, "all_boxes", lambda: chosen)
    monkeypatch.setattr(live, "boxes", lambda: FEW)
    return chosen


def random_rule(rng, span):
    """A swizzle that stays inside the area, and tears no box apart that others lie in."""
    bits = int(rng.integers(0, 4))
    return BoxRule(span, Swizzle(bits, int(rng.integers(3, 6)), int(rng.integers(max(1, bits), 5))))


def test_ptxas_takes_every_kernel():
    kernels = [probe.kernel(direction, rank) for direction in probe.DIRECTIONS for rank in range(1, 6)]
    codes, refused = assemble(toolchain.find(), kernels, arch("sm_90"))
    assert refused == {}
    for kernel in kernels:
        opcode = {"load": "UTMALDG", "store": "UTMASTG"}[kernel.op.direction]
        assert f"{opcode}.{kernel.op.rank}D" in codes[kernel.name].opcodes
    with pytest.raises(ProbeError, match="cannot be emulated"):
        kernels[0].op.emulate(probe.launches("load", 2, boxes()[:1])[0], None)


def test_boxes_stay_inside_what_is_reserved():
    """In global memory, and in shared memory by the rules that are known."""
    for case in all_boxes():
        assert probe.offsets(case).min() >= 0
        assert probe.offsets(case).max() < probe.TENSOR
        if not broken(case.map):
            span = SPANS.get(case.map.swizzle, case.map.row_bytes)
            assert case.base + case.map.rows * span <= probe.AREA, case


def test_the_known_modes_are_fitted():
    said = live.report(followed(Machine()))
    assert {n: (m["pitch"], m["swizzle"]) for n, m in said["modes"].items()} == {
        "NONE": ("row", [0, 4, 3]), "32B": (32, [1, 4, 3]), "64B": (64, [2, 4, 3]), "128B": (128, [3, 4, 3]),
    }  # fmt: skip
    for mode in said["modes"].values():
        assert mode["misfits"] == 0
        assert mode["second"]["misfits"] > 0
        assert mode["loads"] == mode["stores"]
    assert said["maps"]["unlike_rules"] == said["lost"] == []
    assert len(said["faults"]) == len(misaligned())
    assert json.loads(json.dumps(said)) == said


@pytest.mark.parametrize("seed", range(3))
def test_any_swizzle_is_read_back(seed, few):
    """Random swizzles and pitches for every mode: what is fitted says the same of every box."""
    rng = np.random.default_rng(seed)
    modes = {0: random_rule(rng, None)} | {n: random_rule(rng, span) for n, span in SPANS.items()}
    machine = Machine(modes)
    found = followed(machine)
    said = live.report(found)
    for name, mode in said["modes"].items():
        assert mode["misfits"] == 0, (name, modes)
        pitch = None if mode["pitch"] == "row" else mode["pitch"]
        rule = BoxRule(pitch, Swizzle(*mode["swizzle"]))
        chosen = [b for (_, n), b in found.placed.items() if few[n].map.swizzle == SWIZZLES[name]]
        assert misfits(rule, chosen) == misfits(modes[SWIZZLES[name]], chosen) == []


@pytest.mark.usefixtures("few")
def test_what_is_no_swizzle_is_a_misfit():
    class Odd(Machine):
        def copy(self, direction, case, block, given, out):
            made = case._replace(base=case.base ^ 128) if case.map.rows == 17 and case.base == 128 else case
            super().copy(direction, made if direction == "load" else case, block, given, out)

    said = live.report(followed(Odd()))
    assert said["modes"]["NONE"]["misfits"] > 0
    assert said["modes"]["128B"]["swizzle"] == [3, 4, 3]


def test_two_rules_are_told_apart_by_the_boxes():
    """No two rules that are tried say the same of every box, but those that differ beyond the area."""
    placed = [PlacedBox(WINDOW + c.base, OURS[3](WINDOW + c.base, c.map.rows, c.map.row_bytes))
              for c in boxes() if c.map.swizzle == 3 and not broken(c.map)]  # fmt: skip
    right = [rule for rule in rules() if misfits(rule, placed[:40]) == []]
    assert right[0] == OURS[3]
    assert fit_boxes(placed)[0].rule == OURS[3]


def test_a_box_that_faults_costs_itself_only(few):
    """Found by halves; all others are measured."""
    number = next(n for n, c in enumerate(few) if not broken(c.map) and n > 20)

    class Bad(Machine):
        def copy(self, direction, case, block, given, out):
            bad = few[number]
            if (case.map._replace(address=0), case.at, case.base) == bad:
                raise BackendFaultError("an illegal instruction was encountered")
            super().copy(direction, case, block, given, out)

    said = live.report(followed(Bad()))
    assert len(said["faults"]) == len(misaligned()) + 1
    assert said["faults"][0]["words"] == "an illegal instruction was encountered"
    assert {m["misfits"] for m in said["modes"].values()} == {0}


@pytest.mark.usefixtures("few")
def test_boxes_that_never_come_are_said():
    said = live.report(followed(Machine(mute=(896,))))
    assert {one["words"] for one in said["lost"]} == {"the box never came"}
    assert {(one["base"], one["direction"]) for one in said["lost"]} == {(896, "load")}


@pytest.mark.usefixtures("few")
def test_bytes_that_are_changed_are_said():
    class Rounding(Machine):
        def one(self, launch):
            out = super().one(launch)
            out[probe.HEADER :: 7] &= 0xFC
            return out

    said = live.report(followed(Rounding()))
    assert any("bytes were copied, of a box of" in one["words"] for one in said["lost"])


def test_no_gpu_at_all():
    def gone(job):
        raise live.BoxesLostError("the process ended with code 1")

    with pytest.raises(EnvironmentUnfitError, match="no box could be copied"):
        live.follow(0, gone)


def test_a_process_that_hangs_or_dies_is_lost():
    for text, words in (("import time; time.sleep(60)", "no answer in 0.5 s"), ("raise SystemExit(3)", "code 3")):
        with pytest.raises(live.BoxesLostError, match=words):
            live.ask({}, (live.COMMAND[0], "-c", text), 0.5 if "sleep" in text else 30)


def test_a_process_says_what_it_met():
    class Lost(Machine):
        def open(self, index):
            raise BackendFaultError("gone")

    class Unfit(Machine):
        def open(self, index):
            raise EnvironmentUnfitError("no usable NVIDIA GPU")

    for machine, key in ((Lost(), "fault"), (Unfit(), "unfit")):
        sink = io.BytesIO()
        worker.serve(
            lambda one=machine: one, io.BytesIO(b'{"device": 0, "first": 0, "last": 1, "encodings": false}\n'), sink
        )
        sink.seek(0)
        assert key in live.receive(sink)[0]


def test_the_worker_answers_without_a_gpu():
    """As `run` does: what is missing is said, or it is measured."""
    done = subprocess.run([*live.COMMAND], input=b'{"device": 0, "first": 0, "last": 1, "encodings": false}\n',
                          capture_output=True, check=False, timeout=60)  # fmt: skip
    header, _ = live.receive(io.BytesIO(done.stdout))
    assert "device" in header or header["error"] == "EnvironmentUnfitError"


# --- the rules ------------------------------------------------------------------------------------------------------


def test_every_rule_is_tried():
    """Each is broken by one of the calls that are made, and by no valid map."""
    tried = {rule.words for one in encodings() for rule in broken(one.map)}
    assert tried == {rule.words for rule in rules_on(90)}
    assert sum(not broken(one.map) for one in encodings()) > 80


def test_rules_agree_with_the_boxes_of_swizzle_table():
    """Two statements of the same: `tma.Mode.why_not` for boxes of two coordinates."""
    for name, number in SWIZZLES.items():
        mode = tma.resolve(f"SWIZZLE_{name}")
        for width, rows, (kind, bits) in ((w, r, k) for w in (1, 8, 16, 32, 64, 128, 256, 257) for r in (0, 1, 256, 257)
                                          for k in (("UINT8", 8), ("UINT32", 32))):  # fmt: skip
            made = packed(kind, (512, 512), (width, rows), name)
            if mode.atoms:
                assert number > 3
                assert broken(made)  # on sm_90
                assert bool(broken(made, 100)) == bool(mode.why_not(tma.Box((width, rows), bits, 0))), made
            elif mode.span is None or mode.span * rows <= tma.MOST_BYTES:
                assert bool(broken(made)) == bool(mode.why_not(tma.Box((width, rows), bits, 0))), made


def test_the_first_box_that_faults_does_not_cost_what_the_driver_says_of_maps(few):
    class Bad(Machine):
        def copy(self, direction, case, block, given, out):
            if (case.map._replace(address=0), case.at, case.base) == few[0]:
                raise BackendFaultError("an illegal instruction was encountered")
            super().copy(direction, case, block, given, out)

    said = live.report(followed(Bad()))
    assert said["faults"][0]["words"] == "an illegal instruction was encountered"
    assert all(one["fits"] for one in said["encodings"])
