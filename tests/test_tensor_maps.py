"""Tensor maps: a machine with any swizzle is read back as it, refusals are answers, and lost boxes cost themselves."""

from dataclasses import replace

import numpy as np
import pytest
from bench import OURS, WINDOW, Copier, bench, concluded

from tcprobe.errors import ProbeError
from tcprobe.fit.boxes import BoxRule, PlacedBox, fit_boxes, misfits, rules
from tcprobe.isa.arch import arch
from tcprobe.isa.tensor_map import SPANS, SWIZZLES
from tcprobe.layout.swizzle import Swizzle
from tcprobe.probes import dialogues
from tcprobe.probes import tensor_maps as probe
from tcprobe.probes.tensor_maps import MisalignedExperiment, ModeExperiment, _boxes_of, all_boxes, boxes, encodings
from tcprobe.references.shared_memory import tma
from tcprobe.references.shared_memory.tensor_map import broken_rules, packed_map, refusing_rules, rules_on
from tcprobe.run.backend import BackendFaultError
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble

MODES = {e.id: e for e in dialogues("tensor_maps").values() if isinstance(e, ModeExperiment)}
MISALIGNED = [e for e in dialogues("tensor_maps").values() if isinstance(e, MisalignedExperiment)]


def few(name, part=6):
    """A mode with some of its boxes."""
    return ModeExperiment(name, MODES[name].cases[::part])


FEW = {name: few(name) for name in MODES}


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
        if not broken_rules(case.map):
            span = SPANS.get(case.map.swizzle, case.map.row_bytes)
            assert case.base + case.map.rows * span <= probe.AREA, case


@pytest.mark.full
def test_the_known_modes_are_fitted():
    machine = Copier()
    found = {name: concluded(mode, machine) for name, mode in MODES.items()}
    assert set(found) == set(SWIZZLES)
    modes = {name: body.mode for name, body in found.items() if body.mode}
    assert {n: (m.pitch, m.swizzle) for n, m in modes.items()} == {
        "NONE": ("row", (0, 4, 3)),
        "32B": (32, (1, 4, 3)),
        "64B": (64, (2, 4, 3)),
        "128B": (128, (3, 4, 3)),
    }
    for mode in modes.values():
        assert mode.misfits == 0
        assert mode.second.misfits > 0
        assert mode.loads == mode.stores
        assert mode.lost == []
    assert all(body.maps.unlike_rules == [] for body in found.values())
    assert all(body.maps.taken == 0 for name, body in found.items() if name not in modes)


@pytest.mark.parametrize("seed", range(3))
def test_any_swizzle_is_read_back(seed):
    """Random swizzles and pitches for every mode: what is fitted says the same of every box."""
    rng = np.random.default_rng(seed)
    rules = {0: random_rule(rng, None)} | {n: random_rule(rng, span) for n, span in SPANS.items()}
    machine = Copier(rules)
    for number, rule in rules.items():
        (experiment,) = (e for e in FEW.values() if SWIZZLES[e.name] == number)
        reading = experiment.measure(bench(experiment, machine))
        mode = experiment.conclude(reading, None).mode
        assert mode.misfits == 0, (experiment.name, rules)
        found = BoxRule(None if mode.pitch == "row" else mode.pitch, Swizzle(*mode.swizzle))
        placed = [box for way in probe.DIRECTIONS for _, box in _boxes_of(reading[way], experiment.cases)]
        assert misfits(found, placed) == misfits(rule, placed) == []


def test_what_is_no_swizzle_is_a_misfit():
    class Odd(Copier):
        def copy(self, direction, case, block, given, out):
            made = case._replace(base=case.base ^ 128) if case.map.rows == 17 and case.base == 128 else case
            super().copy(direction, made if direction == "load" else case, block, given, out)

    assert concluded(FEW["NONE"], Odd()).mode.misfits > 0
    assert concluded(FEW["128B"], Odd()).mode.swizzle == (3, 4, 3)


@pytest.mark.full
def test_two_rules_are_told_apart_by_the_boxes():
    """No two rules that are tried say the same of every box, but those that differ beyond the area."""
    placed = [
        PlacedBox(WINDOW + c.base, OURS[3](WINDOW + c.base, c.map.rows, c.map.row_bytes))
        for c in boxes()
        if c.map.swizzle == 3 and not broken_rules(c.map)
    ]
    right = [rule for rule in rules() if misfits(rule, placed[:40]) == []]
    assert right[0] == OURS[3]
    assert fit_boxes(placed)[0].rule == OURS[3]


def test_a_misaligned_box_that_loses_the_device_is_a_finding():
    """And one that does not is none the less."""

    class Aligning(Copier):
        def one(self, launch):
            return super().one(replace(launch, inputs=(launch.inputs[0], rounded_down(launch.inputs[1]))))

    for experiment in MISALIGNED:
        with pytest.raises(BackendFaultError, match="misaligned address"):
            concluded(experiment, Copier())
        body = experiment.instead("fault", "misaligned address")
        assert body.fault.words == "misaligned address"
        assert body.fault.base == experiment.case.base
        assert experiment.instead("refused", "no such instruction") is None
        assert concluded(experiment, Aligning()).fault.words != "misaligned address"


def rounded_down(given):
    """Where boxes go, at aligned addresses."""
    words = given.copy().reshape(-1).view(np.uint32).reshape(-1, 8)
    words[:, 0] -= words[:, 0] % 128
    return words.view(np.uint8).reshape(given.shape)


def test_boxes_that_never_come_are_said():
    lost = [one for mode in FEW.values() if (found := concluded(mode, Copier(mute=(896,))).mode) for one in found.lost]
    assert {one.words for one in lost} == {"the box never came"}
    assert {(one.base, one.direction) for one in lost} == {(896, "load")}


@pytest.mark.parametrize("name", ["NONE", "128B"])
def test_bytes_that_are_changed_are_said(name):
    """Of some boxes beside the rule of the others; where no box is left there is no rule, and no silence."""

    class Rounding(Copier):
        def one(self, launch):
            out = super().one(launch)
            if launch.kernel.op.rank in self.ranks:
                out[probe.HEADER :: 7] &= 0xFC
            return out

    machine = Rounding()
    machine.ranks = (2,)
    lost = concluded(FEW[name], machine).mode.lost
    assert any("bytes" in one.words for one in lost)
    machine.ranks = range(1, 6)
    with pytest.raises(ProbeError, match=r"no box of \d+ maps could be followed, first load 0 \d+ bytes were copied"):
        concluded(FEW[name], machine)


def test_no_gpu_tells_a_box_that_is_not_there():
    experiment = FEW["NONE"]
    reading = experiment.measure(bench(experiment, Copier()))
    reading["load"][0] = len(experiment.cases)
    with pytest.raises(ProbeError, match="there is no box"):
        experiment.conclude(reading, None)


# --- the rules ------------------------------------------------------------------------------------------------------


def test_every_rule_is_tried():
    """Each is broken by one of the calls that are made, and by no valid map."""
    tried = {rule.words for one in encodings() for rule in broken_rules(one.map)}
    assert tried == {rule.words for rule in rules_on(90)}
    assert sum(not broken_rules(one.map) for one in encodings()) > 80


def test_rules_agree_with_the_boxes_of_swizzle_table():
    """Two statements of the same: `tma.Mode.why_not` for boxes of two coordinates."""
    for name, number in SWIZZLES.items():
        mode = tma.resolve(f"SWIZZLE_{name}")
        for width, rows, (kind, bits) in (
            (w, r, k)
            for w in (1, 8, 16, 32, 64, 128, 256, 257)
            for r in (0, 1, 256, 257)
            for k in (("UINT8", 8), ("UINT32", 32))
        ):
            made = packed_map(kind, (512, 512), (width, rows), name)
            if mode.atoms:
                assert number > 3
                assert broken_rules(made)  # on sm_90
                assert bool(broken_rules(made, 100)) == bool(mode.why_not(tma.Box((width, rows), bits, 0))), made
            elif mode.span is None or mode.span * rows <= tma.MOST_BYTES:
                assert bool(broken_rules(made)) == bool(mode.why_not(tma.Box((width, rows), bits, 0))), made


def test_what_the_driver_says_of_maps_stands_beside_the_rules():
    calls = concluded(dialogues("tensor_maps")["encodings"], Copier()).calls
    assert len(calls) == len(encodings())
    assert all(call.fits for call in calls)

    class Lenient(Copier):
        def map_result(self, made):
            return "CUDA_SUCCESS"

    calls = concluded(dialogues("tensor_maps")["encodings"], Lenient()).calls
    assert [call.fits for call in calls] == [not refusing_rules(one.map) for one in encodings()]
