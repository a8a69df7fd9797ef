"""On a live GPU: boxes lie where the rules of tensor maps say, and the driver refuses what they say."""

import time

import pytest

from tcprobe.references.shared_memory.tensor_map import SPANS, SWIZZLES
from tcprobe.run import tensor_maps as live
from tcprobe.store.tensor_maps import check

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def measured():
    start = time.perf_counter()
    name, found = live.measured(0)
    return name, found, time.perf_counter() - start


def test_every_mode_is_the_one_that_answers(measured):
    name, found, seconds = measured
    check(found, name)
    if name != "sm_90":
        pytest.skip("the rules are those of sm_90")
    modes = {mode: (row["pitch"], row["swizzle"]) for mode, row in found["modes"].items()}
    assert modes == {mode: (SPANS.get(n, "row"), [n, 4, 3]) for mode, n in SWIZZLES.items() if n in (0, *SPANS)}
    assert {row["misfits"] for row in found["modes"].values()} == {0}
    assert found["lost"] == found["maps"]["unlike_rules"] == []
    assert all(one["fits"] for one in found["encodings"])
    assert all("misaligned" in one["words"] for one in found["faults"])
    assert seconds < 12


def test_twice_the_same(measured):
    assert live.measured(0) == measured[:2]
