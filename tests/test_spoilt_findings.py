"""Findings with one value exchanged for another, sealed again: refused as data, or taken; never an internal error."""

import functools
import json
import shutil

import pytest

from tcprobe.errors import DataError
from tcprobe.store import findings
from tcprobe.store.documents import seal
from tcprobe.store.finding import METHODS, Key
from tcprobe.store.results import Results, published

HOSTILE = (None, -1, 0.5, 2**70, "", "x", "nan", True, [], [[]], {}, {"a": []}, [None] * 3)
KINDS = ("measurement", "banks", "cost", "descriptors", "numerics", "tensor_maps", "undocumented")


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
    assert findings.saved(Results(tmp_path), key) is not None
    refused = 0
    tried = [(place, value) for place in places(kept) for value in HOSTILE]
    outer = [one for one in tried if len(one[0]) < 3]
    for place, value in [*outer, *sample([one for one in tried if len(one[0]) > 2], 150)]:
        target.write_text(seal(kind, spoilt(kept, place, value)))
        try:
            findings.saved(Results(tmp_path), key)
        except DataError:
            refused += 1
    assert refused > 0.7 * len(outer)
