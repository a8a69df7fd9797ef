"""Options that several commands share."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class Named(click.Path):
    """A path that has a name: an empty one, as of a shell variable that is not set, would be the folder at hand."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if not str(value):
            self.fail("an empty name.", param, ctx)
        return super().convert(value, param, ctx)


WRITTEN = click.option(
    "--results", "folder", type=Named(path_type=Path, file_okay=False), default=Path("results"), show_default=True,
    help="Folder of tables that is written.",
)  # fmt: skip
ARCH = click.option("--arch", "name", metavar="sm_XX", help="Compute capability, for example sm_90.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for other programs.")
SELECTOR = click.option(
    "--selector",
    type=int,
    metavar="N",
    help="Of metadata: the table of this sparsity selector; of scales: of this choice of byte-id and thread-id, as "
    "`list --json` numbers them. Default: all, or the only one.",
)
CUDA = click.option(
    "--cuda", type=Named(path_type=Path, exists=True, file_okay=False),
    help="Folder of a CUDA toolkit whose ptxas and nvdisasm to use. Default: CUDA_HOME, the installed wheels, PATH.",
)  # fmt: skip


_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_results(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options --results and --only; the command gets the folders that it reads as `layers`."""

    @click.option(
        "--results", "folder", type=Named(path_type=Path, file_okay=False),
        help="Folder of measurements, taken over the published ones. Default: ./results, if it has any.",
    )  # fmt: skip
    @click.option("--only", is_flag=True, help="That folder alone, without the published tables.")
    @functools.wraps(command)
    def with_layers(folder: Path | None, only: bool, **asked: Any) -> Any:
        from tcprobe.store.lookup import layers

        return command(layers=layers(folder, only), **asked)

    return with_layers


class Output(Named):
    """The name of a file to write: not empty, and without the slash at its end that a folder's may have."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value).endswith(("/", os.sep)):
            self.fail(f"{str(value)!r} is no name of a file.", param, ctx)
        return super().convert(value, param, ctx)


class Numbers(click.ParamType[list[int]]):
    """A number of at most five digits, or a range of them: 3, 0-7."""

    name = "N|N-M"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ascending."""
        if isinstance(value, list):
            return value
        match = _RANGE.fullmatch(str(value))
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not found:
            self.fail(f"{value!r} is no number such as 3, nor a range such as 0-7.", param, ctx)
        return list(found)
