"""Every arch has its row in every table that is kept by arch: found by looking at all modules, not by a list."""

import importlib
import pkgutil

import pytest

import tcprobe
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, BY_NAME, is_target, runs
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import emulated
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.kernel.mma_sync import MULTIPLIES
from tcprobe.sass import lowering
from tcprobe.store.choose import default

NUMBERS = {row.number for row in ARCHS}
CHOSEN = {  # what is a choice among archs, not a fact about each
    "tcprobe.pages.site.kernel_pages.KERNELS": "kernels that have pages",
}
LEAST = 4  # keys that a table by arch has; fewer are exceptions
NO_MODULE = (
    "tcprobe.__main__",
    "tcprobe.audit.adapters",
    "tcprobe.order.triton_matmul",
)  # they run, or need what is not installed


def _modules():
    for found in pkgutil.walk_packages(tcprobe.__path__, "tcprobe."):
        if not found.name.startswith(NO_MODULE):
            yield importlib.import_module(found.name)


def _keys(value):
    """What a table is kept by: the keys of a mapping, what rows begin with."""
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, (tuple, list)) and value and all(isinstance(row, tuple) and row for row in value):
        return [row[0] for row in value]
    return []


def _archs(keys):
    """The archs that keys are, as numbers; none where one key is something else."""
    if all(isinstance(key, str) and key in BY_NAME for key in keys):
        return {BY_NAME[key].number for key in keys}
    if all(isinstance(key, int) and not isinstance(key, bool) and key in NUMBERS for key in keys):
        return set(keys)
    return set()


def _tables():
    for module in _modules():
        for name, value in vars(module).items():
            own = getattr(value, "__module__", module.__name__) == module.__name__
            if own and len(set(map(repr, _keys(value)))) >= LEAST and _archs(_keys(value)):
                yield f"{module.__name__}.{name}", _archs(_keys(value))


def test_every_table_by_arch_has_every_arch():
    tables = dict(_tables())
    assert "tcprobe.isa.arch.BY_NAME" in tables
    lacking = {name: sorted(NUMBERS - archs) for name, archs in tables.items() if name not in CHOSEN}
    assert {name: numbers for name, numbers in lacking.items() if numbers} == {}


@pytest.mark.parametrize("row", ARCHS, ids=str)
def test_every_arch_has_what_every_other_has(row):
    """Shared memory in whole KiB, rates or their absence in a row, copies that it can run, targets, kernels."""
    assert 48 < row.shared_kib < 228
    assert all(rate > 0 and dtype(kind).bits for kind, rate in row.peaks)
    assert bool(row.peaks) == (row.peaks_source != "none stated")
    assert all(is_target(target) and runs(row, target) for target in row.targets)
    for kind in (kind for kind, ways in MULTIPLIES.items() if ways[-1][0] <= row.number):
        made = gemm(GemmOptions(row.name, kind))
        assert made.shared_bytes <= row.shared_kib << 10
        assert ("cp.async" in made.source) == (row.number >= 80)


@pytest.mark.parametrize("row", ARCHS, ids=str)
def test_sparse_multiplies_are_emulated_where_their_code_is_not_theirs(row):
    """What is stated of archs, against what the published code of every sparse multiply has."""
    forms = [form for form in inventory.instructions().values() if form.family == "mma.sp" and form.target.on(row)]
    for form in forms:
        low = lowering.saved(form, row, default())
        if low and not low.refused:
            assert emulated(form, row) != low.native(form), form.id
    assert forms or row.number < 80
