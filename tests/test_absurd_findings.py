"""Findings whose numbers cannot be: each number of each kind's body exchanged for an absurd one is refused."""

import json
from dataclasses import replace

import msgspec
import pytest
from bench import TensorMemoryCore, run
from found_orders import BODY, save
from test_spoilt_findings import places, spoilt

from tcprobe.errors import DataError
from tcprobe.store import acceptance, findings, kinds
from tcprobe.store.kinds import cost
from tcprobe.store.results import Results, published

ABSURD = (-(2**63), 2**63, 10**29, -(10**29), float("nan"), float("inf"))
SIGNED = {
    "exponent_floor",
    "value",
    "address",
    "source",
}  # where -1 can be: an exponent, a refused argument, an idle lane
TAKEN = 12  # findings of an arch and kind


def some(kind, folder):
    """Published findings of a kind on all archs, of each arch some of all lengths; of tensor memory emulated ones."""
    results = published()
    if kind == "order":  # of which none need be published
        save(folder, BODY)
        results = Results(folder)
    if kind == "tensor_memory":  # which no published GPU has
        run(kind, TensorMemoryCore(), folder, ("tcgen05.cp.128x128b.memory", "tcgen05.cp.4x256b.memory"))
        results = Results(folder)
    for name in findings.archs(results, kind):
        found = [one for one in findings.every(results, kind, name) if one.status == "measured"]
        found.sort(key=lambda one: (len(json.dumps(one.plain)), one.subject))
        yield from {one.subject: one for one in (*found[:: max(1, len(found) // TAKEN)], found[-1])}.values()


def numbers(body):
    """A place of a number for each shape of place: positions in lists and names of opcodes apart."""
    of_shape = {}
    for place in places(body):
        at = body
        for key in place:
            at = at[key]
        if isinstance(at, int | float) and not isinstance(at, bool):
            of_shape[tuple("*" if isinstance(key, int) or key.isupper() else key for key in place)] = place
    return of_shape


def is_taken(finding, body):
    """Whether a file with such a body is read."""
    try:
        kinds.check(replace(finding, body=kinds.to_body(finding.kind, body)))
        if finding.kind == "lowering":
            row = {"others": 0, "refused": None, **body}
            acceptance.lowering({"compiler": "x", "instructions": {finding.subject: row}})
    except (DataError, ValueError, TypeError, KeyError):  # as a file's reader has them (`documents.naming`)
        return False
    return True


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", kinds.names())
def test_no_number_of_a_body_may_be_absurd(kind, tmp_path):
    seen = set()
    for finding in some(kind, tmp_path):
        assert is_taken(finding, finding.plain), finding.subject
        for shape, place in numbers(finding.plain).items():
            if shape in seen and kind != "cost":
                continue
            seen.add(shape)
            for value in (*ABSURD, *([] if SIGNED & {*shape} else [-1])):
                assert not is_taken(finding, spoilt(finding.plain, place, value)), (finding.subject, place, value)
    assert seen or kind == "encodings"  # whose bits are texts


def test_products_per_cycle_follow_from_the_interval():
    """Three of each family: a rate that the finding's own interval does not give is refused."""
    by_family = {}
    for finding in findings.every(published(), "cost", "sm_90"):
        if finding.status == "measured" and finding.body.macs_per_cycle:
            by_family.setdefault(finding.subject.partition(".")[0], []).append(finding)
    assert {"mma", "wgmma", "wmma"} <= set(by_family)
    for found in by_family.values():
        for finding in found[:3]:
            rate = finding.body.macs_per_cycle
            for other in (1e6, rate * 1.01 + 0.2, rate / 2, 0.5):
                body = msgspec.structs.replace(finding.body, macs_per_cycle=other)
                with pytest.raises(DataError, match="multiply-adds per cycle"):
                    kinds.check(replace(finding, body=body))
            bare = msgspec.structs.replace(finding.body, interval=None, curve=[])
            with pytest.raises(DataError, match="it has no interval"):
                kinds.check(replace(finding, body=bare))


def test_products_of_a_name_with_its_sizes_are_those_of_its_loops():
    from tcprobe.probes import dialogues

    timed = [one for name, one in dialogues("cost").items() if name.startswith("tcgen05.mma")]
    assert timed
    for one in timed:
        shape = one.row.shape
        assert cost.products(one.id) == shape.m * one.n * shape.k // one.group, one.id
    assert cost.products("ldmatrix.m8n8.x4.shared.b16") == cost.products("banana") == 0
