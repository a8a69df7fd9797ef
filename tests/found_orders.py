"""Findings of orders, made up: one with three orders along M, and many."""

import msgspec
import numpy as np

from tcprobe.store import findings
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.order import Body, MRange, subject
from tcprobe.store.results import Results

FORM = {"bf16": "wgmma.mma_async.m64n256k16.f32.bf16.bf16", "f16": "wgmma.mma_async.m64n256k16.f32.f16.f16"}
MADE = {"device": "NVIDIA H200", "driver": "580", "cuda": "13.0", "compiler": "none", "ptx": "none", "tcprobe": "0.1.0"}


def order(kind, k, parts):
    """Chains of wgmma, as many as parts, that additions join."""
    chains = [{"form": FORM[kind], "k": [[k * at // parts, k * (at + 1) // parts]]} for at in range(parts)]
    types = {"a": kind, "b": kind, "d": "f32"}
    return {
        "arch": "sm_90",
        "types": types,
        "k": k,
        "inputs": "exact",
        "sum": chains[0] if parts == 1 else {"add": chains},
    }


BODY = Body(
    call="cupy.matmul",
    library="cuBLAS 13.1.0.3",
    multiprocessors=132,
    types=("bf16", "bf16", "f32"),
    n=4096,
    k=4096,
    a="row",
    b="row",
    alignment=16,
    orders=[order("bf16", 4096, parts) for parts in (2, 1, 8)],
    ranges=[
        MRange(1, 16, 0, 16, 4096),
        MRange(17, 511, 1, 20, 8192, 0, 4000),
        MRange(512, 1024, 0, 20, 8192, 0, 4000, "sm90_xmma_gemm_bf16"),
        MRange(1025, 4096, 2, 20, 4096, 0, 17),
    ],
)


def finding(body):
    """The finding of a body."""
    return Finding("order", subject(body), "sm_90", "live", "measured", MADE, body)


def save(folder, body, fix=False):
    """Write it; with `fix` its ranges count orders anew."""
    if fix:
        numbers = {number: place for place, number in enumerate(sorted({each.order for each in body.ranges}))}
        ranges = [msgspec.structs.replace(each, order=numbers[each.order]) for each in body.ranges]
        body = msgspec.structs.replace(body, ranges=ranges)
    findings.write(Results(folder), finding(body))


def many(number):
    """Bodies of two types, two libraries and many sizes, each with one to four orders."""
    rng, made = np.random.default_rng(0), []
    for at in range(number):
        kind, k = ("bf16", "f16")[at % 2], 1024 * (1 + at // 8)
        parts = rng.permutation([1, 2, 3, 4, 6, 8, 11])[: int(rng.integers(1, 5))].tolist()
        ends = sorted(rng.choice(4096, len(parts), replace=False).tolist())
        starts = [0, *ends[:-1]]
        ranges = [
            MRange(start + 1, end + 1, place, 1, 4096, 0, 5 if place else None)
            for place, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
        ranges = [msgspec.structs.replace(each, first=each.first + (place > 0)) for place, each in enumerate(ranges)]
        if any(each.first > each.last for each in ranges):
            continue
        body = Body(
            "cupy.matmul",
            f"cuBLAS 13.{at // 2 % 2}",
            132,
            (kind, kind, "f32"),
            512 * (1 + at // 4 % 2),
            k,
            "row",
            "row",
            16,
            [order(kind, k, each) for each in parts],
            ranges,
        )
        made.append(body)
    return made
