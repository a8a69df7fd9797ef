"""What no GPU has run, on an emulated GPU where it goes wrong: a fault costs its own cell only, and names itself."""

import first_minute
import pytest
from first_minute import FAULTS

from tcprobe.isa.arch import arch
from tcprobe.probes import experiments
from tcprobe.store.cell import stated
from tcprobe.store.results import Results

SPARE = "tcgen05.cp.4x256b.memory"
STATUS = {"is refused by the driver": "refused", "has another layout": "measured"}


def strange(found, faults):
    """What must not be: a cell of another status than its fault's, one that does not name it, a fault beside it."""
    for id_, (status, words) in found.items():
        fault = faults.get(id_)
        wanted = STATUS.get(fault, "failed") if fault else "measured"
        if status != wanted or FAULTS.get(fault, "") not in (words or ""):
            yield id_, fault, status, words


def test_a_fault_costs_its_own_cell_and_names_itself(tmp_path):
    faults = {
        "stmatrix.m16n8.x1.trans.shared.b8": "traps",
        "ldmatrix.m16n16.x1.trans.shared.b8": "returns nothing",
        "ldmatrix.m8n16.x1.shared.b8x16.b6x16_p32": "has another layout",
        "ldmatrix.m8n16.x1.shared.b8x16.b4x16_p64": "is refused by the driver",
    }
    others = ["stmatrix.m16n8.x2.trans.shared.b8", "ldmatrix.m8n16.x2.shared.b8x16.b6x16_p32"]
    found, _ = first_minute.tried("sm_120", faults, others, tmp_path)
    assert set(found) == {*faults, *others}
    assert not list(strange(found, faults))
    (root,) = (tmp_path / "c").iterdir()
    experiment = experiments()["ldmatrix.m8n16.x1.shared.b8x16.b6x16_p32"]
    (fragment,) = (one for one in experiment.fragments if one.operand == "d")
    _, documented = stated(fragment, arch("sm_120"))
    assert Results(root).measurement("sm_120", "live", experiment.id).tables["d"] != documented.meant


@pytest.mark.full
@pytest.mark.parametrize("number", [2, 3])
def test_every_family_that_no_gpu_has_run_goes_wrong_alone(number, tmp_path):
    """A round of each arch; `benchmarks/first_minute.py` tries all."""
    name = ("sm_100", "sm_120")[number % 2]
    faults, others = list(first_minute.rounds(name))[number]
    found, _ = first_minute.tried(name, faults, others, tmp_path)
    assert not list(strange(found, faults))


@pytest.mark.full
def test_a_family_that_fails_waits_until_all_else_is_done(tmp_path):
    """Three faults in a row, then the others, then the rest of the family."""
    family = [probe.id for probe in first_minute.unrun("sm_100")["tcgen05.ld"]][:6]
    asked = []
    found, _ = first_minute.tried("sm_100", dict.fromkeys(family, "traps"), [SPARE], tmp_path, asked.append)
    assert asked.index(SPARE) == 3
    assert [found[id_][0] for id_ in (*family, SPARE)] == ["failed"] * 6 + ["measured"]
