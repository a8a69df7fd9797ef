"""A warpgroup's thread is printed with its warp and lane, by every command that names one."""

import re

import pytest
from click.testing import CliRunner
from command import tcprobe

from tcprobe.cli import main
from tcprobe.isa.arch import holder_name

D = "wgmma.m64n8k16.f16.f16.f16.d"
THREAD = re.compile(r"thread (\d+) \(warp (\d+), lane (\d+)\)")


def said(*words, code=0):
    return tcprobe(*words, code=code).output


def test_the_name():
    for thread in range(128):
        number, warp, lane = map(int, THREAD.fullmatch(holder_name(thread, 128)).groups())
        assert (number, 32 * warp + lane, lane < 32) == (thread, thread, True)
    assert holder_name(4, 32) == "lane 4"


@pytest.fixture
def table(tmp_path):
    """The table of D as a CSV, with two elements exchanged that thread 36 has."""
    lines = CliRunner().invoke(main, ["emit", D, "--to", "csv"]).stdout.splitlines()
    at = [n for n, line in enumerate(lines) if re.match(r"36,[01],", line)]
    (one, two) = at
    lines[one], lines[two] = (",".join([*lines[a].split(",")[:2], *lines[b].split(",")[2:]]) for a, b in (at, at[::-1]))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.full
def test_every_command_that_names_a_slot(table):
    row = "wgmma.m64n8k16.f16.f16.f16"
    answers = {
        "where": said("where", D, "--lane", "36", "--i", "0"),
        "where ": said("where", D, "--row", "17", "--col", "0"),
        "trace": said("trace", row, "--operand", "a", "--lane", "36", "--i", "0"),
        "trace ": said("trace", row, "--row", "17", "--col", "0"),
        "show": said("show", D, "--full"),
        "compare": said("compare", str(table), D, code=1),
    }
    for command, text in answers.items():
        assert THREAD.search(text), command
        assert not re.search(r"\blane \d+ i \d", text), command
        assert all(int(number) == 32 * int(warp) + int(lane) for number, warp, lane in THREAD.findall(text))
    assert "thread 0 to 127" in said("convert", D, "stmatrix")


def test_a_warps_lanes_are_lanes():
    for words in (
        ["where", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", "--row", "3", "--col", "5"],
        ["show", "mma.m16n8k16.row.col.f32.f16.f16.f32.a"],
    ):
        assert not re.search(r"\bthread\b", said(*words))
