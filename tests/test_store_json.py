"""What is stored through stmatrix, in JSON and in words: of every family, type and side that there is a way of."""

import json

import pytest

from tcprobe.ask.confidence import confidence
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.store.cell import load

TYPES = {"f32": ("f32", "f16", "e4m3"), "s32": ("s32", "s8"), "f16": ("f16", "e5m2")}
RESULTS = [
    f
    for row in inventory.instructions().values()
    if row.products == 1 and row.shape.n <= 32
    for f in row.fragments
    if f.operand in ("a", "b", "d") and f.slot_bits in (8, 16, 32)
]


@pytest.mark.parametrize("operand", ["a", "b", "d"])
def test_every_way_has_words_and_json(operand, sample):
    """The registers that stmatrix takes are its own, whatever elements they hold: its table is as sure as it is."""
    tried = 0
    for fragment in sample([f for f in RESULTS if f.operand == operand], 61):
        for kind in TYPES.get(fragment.type, (fragment.type,)):
            for side in ("row", "col"):
                try:
                    store = plan_store_code(load(fragment.id, "sm_90"), StoreOptions("stmatrix", kind, side))
                except UsageError:
                    continue
                tried += 1
                registers = store.conversion.tiling.target
                assert json.loads(json.dumps(store.to_json()))["confidence"] == confidence(store.cell).to_json()
                assert list(store.in_words)
                assert confidence(registers) == confidence(load(registers.fragment.id, "sm_90"))
                assert json.dumps(store.conversion.to_json())
    assert tried > 2
