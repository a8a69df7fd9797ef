"""Whatever names a file or a folder, in every command: nothing is waited for, and only what it should be is read."""

import json
import os
import subprocess
import sys

import click
import pytest
from test_options import ASKED, OPTIONS, A

from tcprobe.question.options import Named, Output

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and devices")
MAIN = """
import json, sys
from tcprobe.system import files
files.MOST_WAIT = 0
from tcprobe.cli import main
for command in json.loads(sys.argv[1]):
    code = None
    try:
        main(command)
    except SystemExit as end:
        code = end.code
    print(f"\\nended {code}", file=sys.stderr, flush=True)
"""
# those that name a file, or a folder, in words of their own
READ = {
    "swizzle fit": ["swizzle", "fit", "X"],
    "swizzle draw": ["swizzle", "draw", "X", "--bits", "8"],
    "compare": ["compare", "X", A],
    "banks --patterns": ["banks", "--patterns", "X"],
    "banks --address": ["banks", "--address", "@X", "--with", "ld.shared.b64"],
    "banks --source": ["banks", "--address", "lane*4", "--source", "@X", "--with", "cp.async.ca.4"],
}
WRITTEN = {"swizzle draw --svg": ["swizzle", "draw", "128", "--svg", "X"]}
FOLDERS = {"fit": ["fit", "X"], "diff": ["diff", "X", "X"], "merge": ["merge", "X"], "site": ["site", "-o", "X"]}
NAMED = [(name, option) for name, option in OPTIONS if isinstance(option.type, Named)]
for command, option in NAMED:
    if command not in ("banks", "site", "swizzle draw"):
        group = WRITTEN if isinstance(option.type, Output) else FOLDERS
        group[f"{command} {option.opts[-1]}"] = [*ASKED[command], option.opts[-1], "X"]
FILES = READ | WRITTEN


def refused(folder, target, commands):
    """Commands in one process, all of them mistakes; a minute or two is enough unless one waits for ever."""
    filled = [[word.replace("X", target) if word in ("X", "@X") else word for word in c] for c in commands.values()]
    call = [sys.executable, "-c", MAIN, json.dumps(filled)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    codes = [int(text.split("\n")[0]) for text in done.stderr.split("\nended ")[1:]]
    assert "Traceback" not in done.stderr
    assert {name: code for name, code in zip(commands, codes, strict=True) if code not in (2, 3, 4)} == {}


def test_every_option_that_names_a_file_is_tried():
    assert {type(option.type) for _, option in NAMED} == {Named, Output}
    assert all(not isinstance(o.type, click.Path) or isinstance(o.type, Named) for _, o in OPTIONS)
    assert len(FILES) + len(FOLDERS) >= len(NAMED)


@pytest.mark.full
def test_no_fifo_is_waited_for(tmp_path):
    """Neither for a writer nor for a reader."""
    refused(tmp_path, made(tmp_path, "fifo"), FILES | FOLDERS)


@pytest.mark.full
def test_no_device_is_read(tmp_path):
    refused(tmp_path, made(tmp_path, "device"), READ | FOLDERS)


def test_no_folder_is_taken_for_a_file(tmp_path):
    refused(tmp_path, made(tmp_path, "folder"), FILES)


def made(folder, kind):
    """The name of a FIFO that nobody writes or reads, of a device without an end, or of an empty folder."""
    path = folder / "x"
    if kind == "device":
        return "/dev/zero"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    return "x"


@pytest.mark.parametrize("place", ["/", "/proc", "/proc/none"])
def test_the_place_of_a_site_is_looked_at_before_the_site_is_made(place, monkeypatch):
    from click.testing import CliRunner

    from tcprobe.cli import main
    from tcprobe.pages.site import build

    monkeypatch.setattr(build, "build", lambda _: pytest.fail("built"))
    assert CliRunner().invoke(main, ["site", "-o", place]).exit_code in (2, 3)
