"""The command line: parse, call the library, print. Everything heavy is imported by the command that needs it.

shell, hints, examples     what commands share
measuring                  `run` and `fit`
printing                   how these are printed
tools                      `merge`, `pages` and `site`

All other commands are questions: see `tcprobe.question`.
"""

from __future__ import annotations

import click

from tcprobe import __version__
from tcprobe.cli.shell import Group


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tcprobe")
@click.option("--strict", is_flag=True, help="Refuse words that fit several things; options are said as options.")
def main(strict: bool) -> None:
    """Which lane and register of a warp holds which matrix element of an NVIDIA tensor-core fragment.

    Measured on GPUs, fitted by closed formulas, compared with what others published. FRAGMENT is a name, words of it in
    any order (m16n8k16 bf16 f32 a), or a pattern with * and ?. What options take may stand among the words.
    """


# the modules that have the commands; they are imported when they are asked for
for module, commands in {"measuring": ("run", "fit"), "tools": ("merge", "pages", "site")}.items():
    Group.later |= dict.fromkeys(commands, f"tcprobe.cli.{module}")
