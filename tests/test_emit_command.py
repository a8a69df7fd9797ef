"""`tcprobe emit`: files are whole or absent, mistakes are refused, formats are listed."""

import pytest
from click.testing import CliRunner
from test_emit import NAMES

from tcprobe.cli import main


def test_the_command_writes_a_whole_file_or_none(tmp_path):
    out = tmp_path / "layouts.h"
    done = CliRunner().invoke(main, ["emit", "wmma.m16n16k16.?.f32", "--to", "cuda", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text().startswith("// made by tcprobe")
    missing = CliRunner().invoke(
        main, ["emit", "wmma.m16n16k16.d.f32", "--to", "csv", "-o", str(tmp_path / "no" / "x")]
    )
    assert missing.exit_code == 3
    assert "cannot write" in missing.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["layouts.h"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["emit", "wmma.m16n16k16.d.f32", "--to", "fortran"], "unknown format 'fortran'; known: csv"),
        (["emit", "wmma.m16n16k16.?.f32", "--to", "csv"], "one table, not 2"),
        (["emit", "nonsense", "--to", "csv"], "no fragment or instruction"),
        (["emit", "--to", "csv"], "Missing argument"),
        (
            ["emit", "wmma.m16n16k16.d.f32", "--to", "python", "--arch", "all"],
            "python takes one arch, not sm_70, sm_72",
        ),
        (["where", "wmma.m16n16k16.d.f32", "--row", "0", "--arch", "all"], "one arch is needed here"),
    ],
)
def test_mistakes(arguments, words):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_the_command_lists_formats():
    done = CliRunner().invoke(main, ["emit", "x", "--to", "help"])
    assert all(f"{name} " in done.stdout for name in NAMES)


def test_numerics_are_of_whole_multiplies(tmp_path):
    """The header of `numerics --header`, of several too; fragments and integers have none."""
    f16, bf16 = (f"mma.m16n8k16.row.col.f32.{kind}.{kind}.f32" for kind in ("f16", "bf16"))
    header = CliRunner().invoke(main, ["numerics", f16, "--header"]).stdout
    assert CliRunner().invoke(main, ["emit", f16, "--to", "numerics"]).stdout == header
    done = CliRunner().invoke(main, ["emit", f16, bf16, "--to", "numerics", "-o", str(tmp_path / "n.h")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert all(name.replace(".", "_") in (tmp_path / "n.h").read_text() for name in (f16, bf16))
    for words in (
        [f"{f16}.a"],
        ["ldmatrix.m8n8.x4.shared.b16"],
        ["mma.m16n8k32.row.col.s32.s8.s8.s32"],
        [f16, "--name", "x"],
    ):
        assert CliRunner().invoke(main, ["emit", *words, "--to", "numerics"]).exit_code == 2, words
