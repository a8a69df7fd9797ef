"""What the options of commands say, as click hands it over: by command, and the groups that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from tcprobe.question.options import PlaceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tcprobe.layout.swizzle import SwizzleName
    from tcprobe.store.choose import Layers


class CodeRequest(TypedDict):
    """Whether code is wanted, and by which name and where; else JSON or words."""

    code: str | bool | None  # cuda or cute; of `load` a flag
    output: Path | None
    called: str | None
    namespace: str | None
    as_json: bool


class DescriptorRequest(TypedDict):
    """What a descriptor of wgmma says."""

    swizzle: SwizzleName | None
    major: str | None
    lbo: int | None
    sbo: int | None
    base_offset: int | None
    start: int | None


class SizesRequest(TypedDict):
    """Which tcgen05.mma is meant."""

    m: int | None
    n: int | None
    vector: int | None


class MemoryRequest(SizesRequest):
    """Which operand in tensor memory is meant."""

    multicast: str | None


class ShowRequest(DescriptorRequest, MemoryRequest):
    """Of `show`, beside the fragments."""

    name: str | None
    selector: int | None
    full: bool
    lanes: bool
    elements: bool
    why: bool


class WhereRequest(DescriptorRequest, MemoryRequest):
    """Of `where`: elements, slots, bytes or cells."""

    rows: list[int] | None
    cols: list[int] | None
    products: list[int]
    lanes: list[int] | None
    elements: list[int] | None
    byte: list[int] | None
    cta: int | None
    columns: list[int] | None
    bit: int | None
    ld: str | None
    warp: int | None
    selector: int | None


class TraceRequest(DescriptorRequest, SizesRequest):
    """Of `trace`: an element of D, a slot or a byte."""

    row: list[int] | None
    col: list[int] | None
    product: int | None
    operand: str | None
    lane: list[int] | None
    element: list[int] | None
    byte: list[int] | None
    a_in: str | None
    a_major: str | None
    b_major: str | None
    ld: str | None
    selector: int | None


class ConvertRequest(PlaceRequest):
    """Of `convert`."""

    transpose: bool
    permute_k: bool
    kind: str | None
    typed: str | None
    contiguous: str | None
    name: str | None
    layers: Layers
    as_json: bool


class PathPlanRequest(CodeRequest, PlaceRequest):
    """Of `path`."""

    size: str
    contiguous: str
    ld: int | None
    kind: str | None
    fill: str | None
    access: str | None


class BanksRequest(PlaceRequest):
    """Of `banks`."""

    fragment: str | None
    size: str | None
    type_: str | None
    contiguous: str
    access: Sequence[str]
    proposes: bool
    address: str | None
    source: str | None
    patterns: Path | None
    rule: bool
    explain: bool
    name: str | None
    layers: Layers
    as_json: bool


class CompareRequest(TypedDict):
    """Of `compare`, beside names and arch."""

    selector: int | None
    complete: bool
    costs: bool


class ReadRequest(TypedDict):
    """Of `read`, beside the files."""

    name: str | None
    cuda: Path | None
    tables: bool


class ReduceRequest(TypedDict):
    """Of `reduce`, beside what of it is asked for."""

    op: str
    size: str | None
    called: str | None
    namespace: str | None
    name: str | None
    layers: Layers
    as_json: bool


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
