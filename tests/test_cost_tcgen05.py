"""Costs of tcgen05: the loops assemble for sm_100a or sm_103a, hold what was written, and mutated ones are refused."""

from functools import cache

import pytest
from click.testing import CliRunner
from cost_model import Clock, code_of
from sampling import TOGETHER
from test_cost_mutations import emptied, halved, hoisted, mutated

from tcprobe.ask.cost import InstructionCost
from tcprobe.ask.cost_words import words
from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes import cost_tensor_memory, dialogues
from tcprobe.probes.cost_tensor_memory import COPIES, FLIGHTS
from tcprobe.probes.experiment import Context
from tcprobe.probes.timing import SPILLED, Seen, stem, working_opcodes
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble

BLACKWELL, ULTRA = arch("sm_100"), arch("sm_103")
MULTIPLIES = {one.id: one for one in cost_tensor_memory.multiplies()}
COPIED = {one.id: one for one in cost_tensor_memory.copies()}
MOVED = {one.id: one for one in cost_tensor_memory.moves()}
EVERY = MULTIPLIES | COPIED | MOVED
SOME = [id_ for id_ in MULTIPLIES if ".m128n256k16." in id_]
SPARSE = "tcgen05.mma.sp.cta_group::2.kind::mxf4nvf4.m256n256k128.f32.e2m1.e2m1.ue4m3.4X"


def assembled(experiment, kernels):
    lines, refused = assemble(toolchain.find(), kernels, place_of(experiment))
    assert refused == {}
    return {kernel.name: code_of(lines[kernel.name]) for kernel in kernels}


def place_of(experiment):
    return BLACKWELL if experiment.target.on(BLACKWELL) else ULTRA


def concluded(experiment, codes, cycles):
    bench = Clock(cycles, codes)
    bench.device = place_of(experiment)
    return experiment.conclude(experiment.measure(bench), Context(bench.device, lambda _: None))


def test_there_is_one_for_every_form():
    rows = [row for row in inventory.of_family("tcgen05") if row.multiplies]
    assert {one.row.id for one in MULTIPLIES.values()} == {row.id for row in rows}
    assert {(one.row.id, one.scale) for one in MULTIPLIES.values()} == {
        (row.id, scale) for row in rows for scale in row.stated.get("scales", ("",))
    }
    moves = [row for row in inventory.of_family("tcgen05") if row.fragments]
    assert set(MOVED) == {f"{row.id}.x{number}" for row in moves for number in row.stated["num"]}
    rest = {row.id for row in inventory.of_family("tcgen05")} - {r.id for r in (*rows, *moves)}
    assert {one.row.id for one in COPIED.values()} == rest
    assert set(EVERY) <= set(dialogues("cost"))
    assert not any(one.target.on(arch("sm_90")) for one in EVERY.values())


@cache
def code_of_loops(ids, place):
    """The machine code of all of a place that are among these: nvdisasm, which is slow to start, runs once."""
    several = [EVERY[id_] for id_ in ids if place_of(EVERY[id_]) == place]
    return assembled(several[0], [kernel for one in several for kernel in one.kernels()])


def code_beside(id_):
    """The machine code of one, made with that of 15 others as for the law of all loops."""
    every = list(EVERY)
    first = every.index(id_) // TOGETHER * TOGETHER
    return code_of_loops(tuple(every[first : first + TOGETHER]), place_of(EVERY[id_]))


@pytest.mark.sampled(151)
@pytest.mark.parametrize("id_", EVERY)
def test_every_loop_holds_what_was_written(id_, together):
    """As many opcodes of tensor memory as copies, each of the form's own, and nothing goes through local memory."""
    experiment = EVERY[id_]
    codes = code_of_loops(together, place_of(experiment))
    for kernel in experiment.kernels():
        seen = Seen.from_code(codes[kernel.name])
        ours = {o: n for o, n in working_opcodes(seen.loop).items() if stem(o).startswith(("UTC", "LDTM", "STTM"))}
        ours = {o: n for o, n in ours.items() if stem(o) != "UTCBAR"}
        assert ours
        assert set(ours.values()) == {kernel.op.copies}
        assert not any(stem(o) in SPILLED for o in seen.loop)
        assert ("2CTA" in "".join(ours)) == ("cta_group::2" in id_)


def test_scales_and_sparsity_are_in_the_words():
    """The descriptor says sparse, the type of scales and K = 96; the text says how many elements a scale is for."""
    sparse = MULTIPLIES[SPARSE]
    assert sparse.block().words[4] >> 2 & 1 == 1
    assert sparse.block().words[4] >> 23 & 1 == 0  # ue4m3
    assert MULTIPLIES[SPARSE.replace("ue4m3", "ue8m0")].block().words[4] >> 23 & 1 == 1
    assert all(".block16 " in one.loop().kernel().text for _, one in sparse.loops)
    assert all(".block32 " in one.loop().kernel().text for _, one in MULTIPLIES[two_scales()].loops)
    wide = next(one for id_, one in MULTIPLIES.items() if ".k96." in id_)
    assert wide.block().words[4] >> 31 == 1


def two_scales():
    return next(id_ for id_ in MULTIPLIES if id_.endswith("ue8m0.2X"))


@pytest.mark.full
def test_two_ctas_are_one_experiment():
    experiment = MULTIPLIES[SPARSE]
    bench = Clock(lambda op, row: 100.0, assembled(experiment, experiment.kernels()))
    grids = []

    def run(launches):
        grids.extend(launch.grid[0] for launch in launches)
        return [bench.one(launch) for launch in launches]

    bench.run = run
    reading = experiment.measure(bench)
    assert set(grids) == {2}
    assert all(len(cycles) == 1 for name, cycles in reading.items() if name != "code")
    found = experiment.conclude(reading, Context(BLACKWELL, lambda _: None))
    assert found.macs_per_cycle == pytest.approx(256 * 256 * 128 / 100 / 2, abs=0.1)  # of an SM


@pytest.mark.full
@pytest.mark.parametrize("id_", MULTIPLIES)
def test_a_model_is_read_back(id_):
    """From shared memory 96 cycles each and 150 once, from tensor memory 64 and 120."""
    each, once = {"s": 96, "t": 64}, {"s": 150, "t": 120}

    def cycles(op, row):
        place, shape, count = op.variant[0], op.variant[1], int(op.variant[2:])
        return each[place] if shape == "i" else (once[place] + each[place] * (count - 1)) / count

    experiment = MULTIPLIES[id_]
    found = concluded(experiment, code_beside(id_), cycles)
    assert not found.refused
    assert [opcode[:3] for opcode in found.opcodes] == ["UTC"]
    assert [(f.a, f.cycles, f.in_flight) for f in found.interval] == [("shared", 96, COPIES), ("tensor", 64, COPIES)]
    assert {(t.a, t.in_flight): t.cycles for t in found.round_trip} == {
        (a, n): once[a[0]] + each[a[0]] * (n - 1) for a in ("shared", "tensor") for n in FLIGHTS
    }
    said = "\n".join(words(InstructionCost(id_, "sm_100", found, "")))
    assert "throughput: one every 64 cycles per SM" in said


@pytest.mark.full
@pytest.mark.parametrize("id_", MOVED)
def test_a_model_of_loads_and_stores_is_read_back(id_):
    """A warp needs 20 cycles for one, an SM 4; with a wait it takes 30."""
    experiment = MOVED[id_]

    def cycles(op, row):
        return 30.0 if op.variant == "trip" else max(20.0, 4.0 * (int(row[0]) // 32))

    found = concluded(experiment, code_beside(id_), cycles)
    assert found.one_warp == 20
    assert found.interval.cycles == pytest.approx(max(4, 20 / experiment.warps[-1]), abs=0.02)
    assert [(trip.cycles, trip.bytes) for trip in found.round_trip] == [
        (30, 128 * experiment.row.fragments[0].registers)
    ]


@pytest.mark.full
@pytest.mark.parametrize("id_", COPIED)
def test_a_model_of_copies_is_read_back(id_):
    experiment = COPIED[id_]

    def cycles(op, row):
        count = int(op.variant[1:])
        return 8.0 if op.variant[0] == "i" else (90 + 8 * (count - 1)) / count

    found = concluded(experiment, code_beside(id_), cycles)
    assert (found.interval.cycles, found.interval.warps) == (8, 1)
    assert [trip.cycles for trip in found.round_trip] == [90 + 8 * (n - 1) for n in FLIGHTS]
    rows, columns, *_ = experiment.row.shape
    assert [trip.bytes for trip in found.round_trip] == [4 * rows * columns * n for n in FLIGHTS]


MUTATED = [*SOME, SPARSE, "tcgen05.ld.16x256b.x4", "tcgen05.st.32x32b.x8", next(iter(COPIED))]


@cache
def code_of_mutants(change, place):
    """The machine code of all of a place, each mutated in the same way."""
    several = [EVERY[id_] for id_ in MUTATED if place_of(EVERY[id_]) == place]
    kernels = [mutated(k, change(".".join(one.id.split(".")[:2]))) for one in several for k in one.kernels()]
    return assembled(several[0], kernels)


@pytest.mark.full
@pytest.mark.parametrize("change", [emptied, halved, hoisted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("id_", MUTATED)
def test_no_mutation_gives_a_number(id_, change):
    experiment = EVERY[id_]
    codes = code_of_mutants(change, place_of(experiment))
    with pytest.raises(ProbeError, match=r"should hold|beside the loop|taken out"):
        concluded(experiment, codes, lambda op, row: 100.0)


@pytest.mark.parametrize(
    "asked", ["tcgen05.mma.cta_group::2.kind::f16", "tcgen05.ld*", "tcgen05.cp.cta_group::1.4x256b"]
)
def test_what_nobody_ran_is_said(asked):
    done = CliRunner().invoke(main, ["cost", asked])
    assert done.exit_code != 0
    assert "its timing loops assemble for sm_100a, but were never run" in " ".join(done.output.split())
