"""On a live GPU: boxes lie where the rules of tensor maps say, and the driver refuses what they say."""

import pytest

from tcprobe.isa.tensor_map import SPANS, SWIZZLES
from tcprobe.run import tensor_maps as live
from tcprobe.store.tensor_maps import check

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    found, _ = live.survey(0, tmp_path_factory.mktemp("results"))
    return found


def test_every_mode_is_the_one_that_answers(measured):
    check(measured, measured["arch"])
    if measured["arch"] != "sm_90":
        pytest.skip("the rules are those of sm_90")
    modes = {mode: (row["pitch"], row["swizzle"]) for mode, row in measured["modes"].items()}
    assert modes == {mode: (SPANS.get(n, "row"), [n, 4, 3]) for mode, n in SWIZZLES.items() if n in (0, *SPANS)}
    assert {row["misfits"] for row in measured["modes"].values()} == {0}
    assert measured["lost"] == measured["maps"]["unlike_rules"] == []
    assert all(one["fits"] for one in measured["encodings"])
    assert all("misaligned" in one["words"] for one in measured["faults"])


def test_twice_the_same(measured, tmp_path):
    assert live.survey(0, tmp_path)[0] == measured
