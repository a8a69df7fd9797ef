"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tcprobe.errors import EnvironmentUnfitError

WRITTEN = click.option(
    "--results", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path("results"), show_default=True,
    help="Folder of tables that is written.",
)  # fmt: skip
ARCH = click.option("--arch", "name", metavar="sm_XX", help="Compute capability, for example sm_90.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for other programs.")
CUDA = click.option(
    "--cuda", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of a CUDA toolkit whose ptxas and nvdisasm to use. Default: CUDA_HOME, the installed wheels, PATH.",
)  # fmt: skip


def read_results(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options --results and --only; the command gets the folders that it reads as `layers`."""

    @click.option(
        "--results", "folder", type=click.Path(path_type=Path, file_okay=False),
        help="Folder of measurements, taken over the published ones. Default: ./results, if it has any.",
    )  # fmt: skip
    @click.option("--only", is_flag=True, help="That folder alone, without the published tables.")
    @functools.wraps(command)
    def with_layers(folder: Path | None, only: bool, **asked: Any) -> Any:
        from tcprobe.lookup import layers

        return command(layers=layers(folder, only), **asked)

    return with_layers


def write_whole(path: Path, text: str) -> None:
    """Write a file aside and rename it, so that it is whole or as it was; EnvironmentUnfitError if that fails."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise EnvironmentUnfitError(f"cannot write {path}: {error.strerror}.") from None


class Numbers(click.ParamType[list[int]]):
    """A number, or a range of them: 3, 0-7."""

    name = "N|N-M"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ascending."""
        if isinstance(value, list):
            return value
        first, dash, last = str(value).partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)) or int(last or first) < int(first):
            self.fail(f"{value!r} is no number such as 3, nor a range such as 0-7.", param, ctx)
        return list(range(int(first), int(last or first) + 1))
