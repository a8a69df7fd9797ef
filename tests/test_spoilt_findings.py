"""Findings with one value exchanged for another, sealed again: refused as data, or taken; never an internal error."""

import functools
import json
import shutil
from dataclasses import replace

import msgspec
import pytest

from tcprobe.errors import DataError
from tcprobe.isa.arch import ARCHS
from tcprobe.probes import cost_moves, cost_multiplies, cost_tensor_memory, cost_warpgroups
from tcprobe.store import findings, kinds
from tcprobe.store.documents import seal
from tcprobe.store.finding import METHODS, Key
from tcprobe.store.kinds import cost
from tcprobe.store.results import Results, published

HOSTILE = (None, -1, 0.5, 2**70, "", "x", "nan", True, [], [[]], {}, {"a": []}, [None] * 3)
COSTS = (cost_moves, cost_multiplies, cost_tensor_memory, cost_warpgroups)
KINDS = ("measurement", "banks", "cost", "descriptors", "numerics", "prices", "tensor_maps", "undocumented")


@functools.cache
def smallest(kind):
    """The smallest published file of a kind, and what it says."""
    pattern = "sm_90/live/*.json" if kind == "measurement" else f"sm_90/live/{kind}/*.json"
    path = min(published().root.glob(pattern), key=lambda one: (one.stat().st_size, one.name))
    return path, json.loads(path.read_text())


def places(content, here=()):
    """The keys that lead to every value."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*here, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*here, key))


def spoilt(content, place, value):
    copy = json.loads(json.dumps(content))
    at = copy
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_another_type_is_refused_as_data(tmp_path, kind, sample):
    path, content = smallest(kind)
    shutil.copytree(published().root / "layouts", tmp_path / "layouts")
    target = tmp_path / path.relative_to(published().root)
    target.parent.mkdir(parents=True)
    of_subject = content["experiment"] if kind == "measurement" else content["subject"]
    key = Key("table" if kind == "measurement" else kind, "sm_90", METHODS[0], of_subject)
    kept = {name: content[name] for name in content if name not in ("kind", "schema", "sha256")}
    target.write_text(seal(kind, kept))
    assert findings.read_any(Results(tmp_path), key) is not None
    refused = 0
    tried = [(place, value) for place in places(kept) for value in HOSTILE]
    outer = [one for one in tried if len(one[0]) < 3]
    for place, value in [*outer, *sample([one for one in tried if len(one[0]) > 2], 300)]:
        target.write_text(seal(kind, spoilt(kept, place, value)))
        try:
            findings.read_any(Results(tmp_path), key)
        except DataError:
            refused += 1
    assert refused > 0.7 * len(outer)


OF_KIND = {
    "banks": "ldmatrix.x4",
    "cost": "ldmatrix.m8n8.x4.shared.b16",
    "descriptors": "wgmma.mma_async.m64n64k16.f32.bf16.bf16.products",
    "numerics": "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "prices": "IADD3",
    "tensor_maps": "128B",
    "undocumented": "mma.sp.m16n8k32.row.col.f32.f16.f16.f32",
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_what_the_arch_has_not_is_found_on_it_by_nobody(kind):
    """sm_70 has none of them, and no arch has `banana`."""
    finding = findings.published_finding(kind, "sm_90", OF_KIND[kind])
    kinds.check(finding)
    wrongly = [replace(finding, subject="banana"), replace(finding, arch="sm_70")]
    for spoilt_finding in wrongly:
        with pytest.raises(DataError):
            kinds.check(spoilt_finding)


def test_costs_are_taken_of_what_the_experiments_time_on_the_archs_that_have_it():
    finding = findings.published_finding("cost", "sm_90", "movmatrix.m8n8.trans.b16")
    body = msgspec.structs.replace(finding.body, emulated=True)
    seen = set()
    for module in COSTS:
        for one in module.experiments():
            for row in ARCHS:
                there = replace(finding, subject=one.id, arch=row.name, body=body)
                try:
                    cost._check_subject(there)
                    taken = True
                except DataError:
                    taken = False
                assert taken == bool(one.target.on(row)), (one.id, row.name)
                seen.add(taken)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("kind", "subject", "part", "nothing"),
    [
        ("banks", "ldmatrix.x4", "", {"patterns": 0, "misfits": 0}),
        ("banks", "ldmatrix.x1", "", {"phases": [[0, 1, 2, 3, 4, 5, 6, 6]]}),
        ("banks", "ldmatrix.x1", "", {"phases": [[0, 1, 2, 3, 4, 5, 6, 8]]}),
        ("descriptors", "wgmma.mma_async.m64n64k16.f32.bf16.bf16.products", "products", {"products": 0, "wrong": 0}),
        ("numerics", "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "", {"random": 0, "wrong": 0}),
        ("numerics", "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "floats", {"result_bits": 24}),
        ("tensor_maps", "128B", "mode", {"loads": 0, "stores": 0, "misfits": 0}),
        ("cost", "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "", {"opcodes": {"IMAD": 1.0}}),
    ],
)
def test_measured_is_not_said_of_what_nobody_tried_or_no_form_can_be(kind, subject, part, nothing):
    finding = findings.published_finding(kind, "sm_90", subject)
    inner = msgspec.structs.replace(getattr(finding.body, part) if part else finding.body, **nothing)
    body = msgspec.structs.replace(finding.body, **{part: inner}) if part else inner
    with pytest.raises(DataError):
        kinds.check(replace(finding, body=body))
