"""What holds no elements of a matrix: every command about elements of a tile refuses it, of every family and role."""

import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.isa import inventory
from tcprobe.isa.operand import WHOLE

QUESTIONS = (
    "reduce {} --over row",
    "reduce {} --over col --op softmax --tile 128x128",
    "reduce {} --mask row>=col",
    "reduce {} --mask col<n --fill 255 --json",
    "reduce {} --fill row",
    "banks {} --tile 64x64 --with ldmatrix.x4",
    "banks {} --tile 128x128 --with ld.shared.b32",
    "path {} --tile 64x64",
    "load {}",
    "load {} --repack --type s4",
    "convert {} {}",
    "convert {} stmatrix",
)


def _one_of_each():
    found = {}
    for fragment in inventory.fragments().values():
        if fragment.role not in WHOLE:
            found.setdefault((fragment.family, fragment.role, fragment.operand, fragment.selectors), fragment.id)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_is_refused_with_a_reason(question):
    assert len(_one_of_each()) > 10
    for id_ in _one_of_each().values():
        done = CliRunner().invoke(main, [word.format(id_) for word in question.split()])
        assert (done.exit_code, done.stdout) == (2, ""), (id_, done.stderr)
        assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("id_", ["mma.sp.m16n8k32.row.col.f32.f16.f16.f32.a", "wgmma.sp.m64n16k64.f32.e4m3.e4m3.a"])
def test_columns_of_sparse_a_are_none_of_the_matrix(id_):
    for more in ("--over col", "--mask row>=col", "--fill col", "--mask row<4 --fill row+col"):
        done = CliRunner().invoke(main, ["reduce", id_, *more.split()])
        assert done.exit_code == 2
        assert "depend on the metadata" in done.stderr
    for more in ("--over row", "--mask row<4", "--fill row"):
        assert CliRunner().invoke(main, ["reduce", id_, *more.split()]).exit_code == 0
