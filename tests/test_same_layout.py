"""Who has the same layout: found by the ids in files, and the same as by comparing every fragment's table."""

from dataclasses import replace

import pytest

from tcprobe.isa import inventory
from tcprobe.isa.names import select
from tcprobe.store import consistency
from tcprobe.store.cell import measured_cell
from tcprobe.store.choose import layers
from tcprobe.store.results import Results, published


def compared(fragment, arch, within):
    """Ids of the fragments of a warp or warpgroup whose layout on an arch is that of `fragment`, in PTX's order."""
    layout = within.layout(fragment, arch)
    rows = (row for row in inventory.instructions().values() if row.threads == fragment.threads)
    others = {other.id: other for row in rows for other in row.spelled}
    return [o.id for o in others.values() if o.id != fragment.id and within.layout(o, arch) == layout]


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_90", "sm_100", "sm_120"])
def test_files_that_name_a_layout_are_the_fragments_that_have_it(arch, sample):
    published_ones, asked = layers(None), 0
    for fragment in sample([f for f in inventory.of_a_warp().values() if published_ones.layout(f, arch)], 29):
        found = published_ones.choose(fragment, [arch])
        assert measured_cell(fragment, found, published_ones).alike == compared(fragment, arch, published_ones)
        asked += 1
    assert asked > 1


def test_a_warpgroup_shares_with_a_warpgroup_alone():
    fragment = inventory.fragment("wgmma.mma_async.m64n64k16.f32.f16.f16.a")
    published_ones = layers(None)
    found = published_ones.choose(fragment, ["sm_90"])
    others = measured_cell(fragment, found, published_ones).alike
    assert others == compared(fragment, "sm_90", published_ones)
    assert others
    assert all(id_.startswith("wgmma.") for id_ in others)


def test_a_folder_of_ones_own_counts_before_what_is_published(tmp_path, monkeypatch):
    """Where a measurement of one's own says otherwise, the published file that names the layout does not count."""
    first, second = select("mma.m16n8k16.row.col.f32.bf16.bf16.f32.a", "mma.m16n8k16.row.col.f32.f16.f16.f32.a")
    own = published().measurement("sm_90", "live", second.experiment)
    turned = own.tables["a"].with_values(
        {"row": tuple(row ^ 8 for row in own.tables["a"].values["row"]), "col": own.tables["a"].values["col"]}
    )
    monkeypatch.setattr(consistency, "check", lambda *_: None)  # that these tables are wrong is no part of this test
    Results(tmp_path).write(replace(own, tables=own.tables | {"a": turned}))
    within = layers(tmp_path)
    assert within.layout(second, "sm_90") == turned.id
    found = within.choose(first, ["sm_90"])
    assert second.id in measured_cell(first, found, layers(None)).alike
    assert second.id not in measured_cell(first, found, within).alike
