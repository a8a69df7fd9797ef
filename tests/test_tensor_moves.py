"""Probes of tcgen05.ld, .st and .ld.red: any layout is measured back on the emulator, spoilt answers are noticed.

The code is assembled for every arch that has them."""

import random
from dataclasses import replace

import machine_code
import numpy as np
import pytest
from emulation import shuffled

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.probes.experiment import Context
from tcprobe.probes.tensor_memory import NUMBERING, columns, experiments
from tcprobe.references import cute, ptx_isa
from tcprobe.run.emulator import Emulator
from tcprobe.sass.cubin import assemble

EVERY = {e.id: e for e in experiments()}
MOVES = {id_: e for id_, e in EVERY.items() if len(e.instruction.stated["num"]) > 1}
REPEATED = [id_ for id_ in EVERY if id_ not in MOVES]
CONTEXT = Context(arch("sm_103"), lambda _: None)


def outputs(experiment, *tables):
    launches = experiment.launches()
    backend = Emulator({f.id: table for f, table in zip(experiment.fragments, tables, strict=True)}, name="sm_103")
    assert not backend.load([launch.kernel for launch in launches])
    return launches, backend.run(launches)


def laid_out(experiment, seed):
    """A random layout of each operand; with seed 0 the documented ones."""
    if seed:
        rng = random.Random(seed)
        return [shuffled(held, rng) for held in experiment.fragments]
    return [claimed(held) for held in experiment.fragments]


def claimed(held):
    by_cute = cute.claim(held, arch("sm_103"))
    by_ptx = ptx_isa.claim(held, arch("sm_103"))
    return (by_ptx if isinstance(by_cute, str) or by_cute is None else by_cute).meant


def test_every_shape_has_its_probes():
    moves = {f"tcgen05.{op}.{shape}" for op in ("ld", "st") for shape in cute.MEMORY_ATOMS}
    assert set(MOVES) == moves | {"tcgen05.ld.red.32x32b", "tcgen05.ld.red.16x32bx2"}
    numbers = {"32x32b": 8, "16x64b": 8, "16x32bx2": 8, "16x128b": 7, "16x256b": 6}
    repeated = {f"{id_}.x{1 << j}" for id_ in moves for j in range(numbers[id_.rpartition(".")[2]])}
    repeated |= {f"tcgen05.ld.red.{shape}.x{1 << j}" for shape in ("32x32b", "16x32bx2") for j in range(1, 8)}
    assert set(REPEATED) == repeated
    assert not any(e.instruction.unprobed for e in EVERY.values())
    assert {columns(EVERY[id_].instruction) for id_ in REPEATED} == {32, 64, 128, 256}


@pytest.mark.parametrize("id_", MOVES)
@pytest.mark.parametrize("seed", range(20))
def test_any_layout_is_measured_back(id_, seed):
    measured_back(MOVES[id_], seed)


@pytest.mark.parametrize("id_", REPEATED)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(9)
def test_any_layout_of_repetitions_is_measured_back(id_, seed):
    measured_back(EVERY[id_], seed)


def measured_back(experiment, seed):
    tables = laid_out(experiment, seed)
    found = experiment.conclude(experiment.decode(*outputs(experiment, *tables)), CONTEXT)
    assert found.tables == {held.operand: table for held, table in zip(experiment.fragments, tables, strict=True)}
    assert found.numbering == NUMBERING


@pytest.mark.parametrize("id_", MOVES)
def test_spoilt_answers_are_noticed(id_):
    """A word that is not a number, a number twice, and a cell outside the piece."""
    experiment = MOVES[id_]
    held = experiment.fragments[0]
    launches, raw = outputs(experiment, *laid_out(experiment, 1))
    words = raw[0].view(np.uint32)
    at = np.flatnonzero(words)[:2]
    for spoil in (
        0,
        int(words[at[1]]),
        columns(experiment.instruction) * 32 + 7,
        (held.cols + 1) if experiment.loads else 0xEEEEEEEE,
    ):
        spoilt = words.copy()
        spoilt[at[0]] = spoil
        with pytest.raises(ProbeError):
            experiment.conclude(experiment.decode(launches, [spoilt.view(np.uint8), *raw[1:]]), CONTEXT)


@pytest.mark.parametrize("id_", [id_ for id_ in MOVES if ".red." in id_])
def test_maxima_that_are_no_part_of_a_row_are_noticed(id_):
    """A maximum beyond one, one too many, one missing, and that of a cell of another lane."""
    experiment = MOVES[id_]
    launches, raw = outputs(experiment, *laid_out(experiment, 0))
    marked = raw[1].view(np.uint32).reshape(-1, 32)
    one, other = np.argwhere(marked)[0], np.argwhere(marked == 0)[0]
    for at, value in ((one, 2), (other, 1), (one, 0)):
        spoilt = marked.copy()
        spoilt[tuple(at)] = value
        with pytest.raises(ProbeError):
            experiment.conclude(experiment.decode(launches, [raw[0], spoilt.reshape(-1).view(np.uint8)]), CONTEXT)
    moved = np.roll(marked, 1, axis=0).reshape(-1).view(np.uint8)
    with pytest.raises(ProbeError, match="next to each other"):
        experiment.conclude(experiment.decode(launches, [raw[0], moved]), CONTEXT)
    spoilt = np.full_like(raw[1], 0xA5)  # nothing was written
    with pytest.raises(ProbeError, match="zeros and ones"):
        experiment.conclude(experiment.decode(launches, [raw[0], spoilt]), CONTEXT)


@pytest.mark.full
@machine_code.needs_tools
def test_they_are_assembled_for_every_arch():
    tools = machine_code.TOOLS
    wanted = [row for row in ARCHS if row in tools.archs and next(iter(MOVES.values())).instruction.target.on(row)]
    assert wanted
    for row in wanted:
        there = [e for e in EVERY.values() if e.instruction.target.on(row)]
        kernels = [launch.kernel for e in there for launch in e.launches()]
        made, refused = assemble(tools, kernels, row)
        assert not refused
        assert len(made) == len(kernels) >= 84


def test_the_probe_writes_before_it_reads():
    """Stores are waited for before loads, loads before their registers are used, and all that is allocated is freed."""
    for launch in (launch for experiment in EVERY.values() for launch in experiment.launches()):
        lines = [line.strip() for line in launch.kernel.text.splitlines()]
        stores, loads = (
            [n for n, line in enumerate(lines) if line.startswith(f"tcgen05.{op}.")] for op in ("st", "ld")
        )
        assert all(lines[n + 1] == "tcgen05.wait::st.sync.aligned;" for n in stores)
        assert all(lines[n + 1] == "tcgen05.wait::ld.sync.aligned;" for n in loads)
        assert sum("alloc." in line and "de" not in line.split(".")[1] for line in lines) == 1
        assert sum("dealloc" in line for line in lines) == 1
        assert replace(launch, ldm=0) == launch
