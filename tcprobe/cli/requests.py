"""What the options of commands say, as click hands it over: by command, and the groups that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pathlib import Path

    from tcprobe.layout.swizzle import SwizzleName
    from tcprobe.store.choose import Layers


class SizesRequest(TypedDict):
    """Which tcgen05.mma is meant."""

    m: int | None
    n: int | None
    vector: int | None


class MemoryRequest(SizesRequest):
    """Which operand in tensor memory is meant."""

    multicast: str | None


class ScalesRequest(MemoryRequest):
    """Of `scales`."""

    lines: list[int] | None
    scaled: list[int] | None
    blocks: int | None
    called: str | None


class TileDescriptorRequest(TypedDict):
    """Of `descriptor`: a tile, or with `idesc` an instruction of tcgen05."""

    size: tuple[int, int] | None
    kind: str | None
    instruction: str | None
    major: str
    swizzle: SwizzleName
    tcgen05: bool
    idesc: bool
    zero_mask: bool
    mma_kind: str | None
    m: int | None
    n: int | None
    a_type: str | None
    b_type: str | None
    d_type: str | None
    scale_type: str | None
    others: tuple[str, ...]


class CompareRequest(TypedDict):
    """Of `compare`, beside names and arch."""

    selector: int | None
    complete: bool
    costs: bool


class CostRequest(TypedDict):
    """Of `cost`, beside names and arch."""

    partner: str | None
    as_table: bool


class ReadRequest(TypedDict):
    """Of `read`, beside the files."""

    name: str | None
    cuda: Path | None
    tables: bool


class NumericsRequest(TypedDict):
    """Of `numerics`: one of its questions."""

    a: str | None
    b: str | None
    c: str | None
    cases: Path | None
    length: int | None
    header: bool


class LayoutRequest(TypedDict):
    """Of a layout that `swizzle` has by name."""

    stride: int | None
    bits: int | None
    base: int | None
    arch: str | None


class MapRequest(TypedDict):
    """Of `tensormap`: sides from the inner one on, those of `tile` from the outer one on."""

    type: str
    tile: tuple[int, ...] | None
    box: tuple[int, ...] | None
    dims: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    steps: tuple[int, ...] | None
    interleave: str
    swizzle: str
    promotion: str
    fill: str
    address: int


class GemmRequest(TypedDict):
    """Of `kernel gemm`."""

    arch: str
    type: str
    tile: tuple[int, int, int] | None
    warps: tuple[int, int] | None
    stages: int | None
    a: str
    b: str
    out: str | None
    cluster: int
    name: str | None
    size: tuple[int, int, int] | None
    explain: tuple[int, int, int] | None
    run: bool
    output: Path | None
    as_json: bool


class RunRequest(TypedDict):
    """Of `run`, beside where it reads and writes."""

    patterns: tuple[str, ...]
    name: str | None
    index: int | None
    method: str
    family: str | None
    force: bool
    limit: float
    as_json: bool


class AuditRequest(TypedDict):
    """How packages are asked: in how many seconds, by which Python."""

    limit: float
    python: Path | None


class EmitRequest(TypedDict):
    """Of `emit`, beside the format and the file."""

    called: str | None
    namespace: str | None
    selector: int | None
    name: str | None
    layers: Layers
