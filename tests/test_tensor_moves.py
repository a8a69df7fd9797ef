"""Probes of tcgen05.ld and tcgen05.st: any layout is measured back on the emulator, spoilt answers are noticed, and the
code is assembled for every arch that has them."""

import random
from dataclasses import replace

import machine_code
import numpy as np
import pytest
from emulation import shuffled

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.probes.experiment import Context
from tcprobe.probes.tensor_moves import COLUMNS, NUMBERING, experiments
from tcprobe.references import cute, cute_tensor_memory
from tcprobe.run.emulator import Emulator
from tcprobe.sass.cubin import assemble

MOVES = {e.id: e for e in experiments()}
CONTEXT = Context(arch("sm_100"), lambda _: None)


def outputs(experiment, table):
    (launch,) = experiment.launches()
    backend = Emulator({experiment.fragments[0].id: table}, name="sm_100")
    assert not backend.load([launch.kernel])
    return [launch], backend.run([launch])


def test_every_shape_has_its_probes():
    assert set(MOVES) == {f"tcgen05.{op}.{shape}" for op in ("ld", "st") for shape in cute_tensor_memory.ATOMS}


@pytest.mark.parametrize("id_", MOVES)
@pytest.mark.parametrize("seed", range(20))
def test_any_layout_is_measured_back(id_, seed):
    experiment = MOVES[id_]
    held = experiment.fragments[0]
    table = shuffled(held, random.Random(seed)) if seed else cute.claim(held, arch("sm_100")).meant
    launches, raw = outputs(experiment, table)
    found = experiment.conclude(experiment.decode(launches, raw), CONTEXT)
    assert found.tables == {held.operand: table}
    assert found.numbering == NUMBERING


@pytest.mark.parametrize("id_", MOVES)
def test_spoilt_answers_are_noticed(id_):
    """A word that is not a number, a number twice, and a cell outside the piece."""
    experiment = MOVES[id_]
    held = experiment.fragments[0]
    launches, raw = outputs(experiment, shuffled(held, random.Random(1)))
    words = raw[0].view(np.uint32)
    at = np.flatnonzero(words)[:2]
    for spoil in (0, int(words[at[1]]), COLUMNS * 32 + 7, (held.cols + 1) if experiment.loads else 0xEEEEEEEE):
        spoilt = words.copy()
        spoilt[at[0]] = spoil
        with pytest.raises(ProbeError):
            experiment.conclude(experiment.decode(launches, [spoilt.view(np.uint8)]), CONTEXT)


@machine_code.needs_tools
def test_they_are_assembled_for_every_arch():
    tools = machine_code.TOOLS
    wanted = [row for row in ARCHS if row in tools.archs and next(iter(MOVES.values())).instruction.target.on(row)]
    assert wanted
    for row in wanted:
        made, refused = assemble(tools, [launch.kernel for e in MOVES.values() for launch in e.launches()], row)
        assert not refused
        assert len(made) == len(MOVES)


def test_the_probe_writes_before_it_reads():
    """Stores are waited for before loads, loads before their registers are used, and all that is allocated is freed."""
    for experiment in MOVES.values():
        (launch,) = experiment.launches()
        lines = [line.strip() for line in launch.kernel.text.splitlines()]
        stores, loads = (
            [n for n, line in enumerate(lines) if line.startswith(f"tcgen05.{op}.")] for op in ("st", "ld")
        )
        assert all(lines[n + 1] == "tcgen05.wait::st.sync.aligned;" for n in stores)
        assert all(lines[n + 1] == "tcgen05.wait::ld.sync.aligned;" for n in loads)
        assert sum("alloc." in line and "de" not in line.split(".")[1] for line in lines) == 1
        assert sum("dealloc" in line for line in lines) == 1
        assert replace(launch, ldm=0) == launch
