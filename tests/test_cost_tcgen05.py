"""Costs of tcgen05.mma: the loops assemble for sm_100a, hold what was written, and mutated ones are refused."""

import pytest
from cost_model import Clock, code_of
from test_cost_mutations import emptied, halved, hoisted, mutated

from tcprobe.ask.cost import InstructionCost, words
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import arch
from tcprobe.probes.cost_tcgen05 import COPIES, FLIGHTS, experiments
from tcprobe.probes.experiment import Context
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble

BLACKWELL = arch("sm_100")
EVERY = {one.id: one for one in experiments()}
SOME = [id_ for id_ in EVERY if ".m128n256k" in id_]


def assembled(kernels):
    lines, refused = assemble(toolchain.find(), kernels, BLACKWELL)
    assert refused == {}
    return {kernel.name: code_of(lines[kernel.name]) for kernel in kernels}


def concluded(experiment, codes, cycles):
    bench = Clock(cycles, codes)
    bench.device = BLACKWELL
    return experiment.conclude(experiment.measure(bench), Context(BLACKWELL, lambda _: None))


def test_there_is_one_for_every_dense_kind_and_size():
    assert len(EVERY) == 12
    assert all(one.target.on(BLACKWELL) and not one.target.on(arch("sm_90")) for one in EVERY.values())


@pytest.mark.full
@pytest.mark.parametrize("id_", EVERY)
def test_a_model_is_read_back(id_):
    """From shared memory 96 cycles each and 150 once, from tensor memory 64 and 120."""
    each, once = {"s": 96, "t": 64}, {"s": 150, "t": 120}

    def cycles(op, row):
        place, shape, count = op.variant[0], op.variant[1], int(op.variant[2:])
        return each[place] if shape == "i" else (once[place] + each[place] * (count - 1)) / count

    experiment = EVERY[id_]
    found = concluded(experiment, assembled(experiment.kernels()), cycles)
    assert not found.refused
    assert [opcode[:3] for opcode in found.opcodes] == ["UTC"]
    assert [(f.a, f.cycles, f.in_flight) for f in found.interval] == [("shared", 96, COPIES), ("tensor", 64, COPIES)]
    assert {(t.a, t.in_flight): t.cycles for t in found.round_trip} == {
        (a, n): once[a[0]] + each[a[0]] * (n - 1) for a in ("shared", "tensor") for n in FLIGHTS
    }
    said = "\n".join(words(InstructionCost(id_, "sm_100", found, "")))
    assert "one every 64 cycles, A in tensor memory, 1 warpgroup, 16 in flight" in said


@pytest.mark.full
@pytest.mark.parametrize("change", [emptied, halved, hoisted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("id_", SOME)
def test_no_mutation_gives_a_number(id_, change):
    experiment = EVERY[id_]
    codes = assembled([mutated(kernel, change("tcgen05.mma")) for kernel in experiment.kernels()])
    with pytest.raises(ProbeError, match=r"should hold|beside the loop|taken out"):
        concluded(experiment, codes, lambda op, row: 100.0)
