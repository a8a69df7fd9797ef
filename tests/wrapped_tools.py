"""Tools that do something else than asked: wrappers around ptxas and nvdisasm, and runs with them."""

import stat

from click.testing import CliRunner
from machine_code import TOOLS

from tcprobe.cli import main


def tool(path, text):
    """A shell script in a folder for --cuda; the folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path.parent


def beside(program):
    """The real ptxas in the folder of another program, since a folder for --cuda has one."""
    program.parent.mkdir(exist_ok=True)
    if program.name != "ptxas":
        (program.parent / "ptxas").symlink_to(TOOLS.ptxas)


def lying(folder, number):
    """An nvdisasm that prints one MOVM as MOV."""
    beside(folder / "nvdisasm")
    turn = f'/MOVM/ {{ if (++n == {number}) sub(/MOVM.16.MT88/, "MOV") }} {{ print }}'
    return tool(folder / "nvdisasm", f"{TOOLS.nvdisasm} \"$@\" | awk '{turn}'")


def exchanging(folder, first, second):
    """A ptxas that takes each of two kernels for the other."""
    swap = f"s/entry {first}(/entry %(/; s/entry {second}(/entry {first}(/; s/entry %(/entry {second}(/"
    return tool(folder / "ptxas", f'sed -i \'{swap}\' "$3" 2> /dev/null\nexec {TOOLS.ptxas} "$@"')


def run(folder, tools, *patterns, name="sm_80"):
    options = ["--arch", name, "--method", "sass", "--cuda", tools, "--results", folder]
    return CliRunner().invoke(main, ["run", *patterns, *map(str, options)])
