"""Orders of any shape as plain data, and operands that show roundings."""

import ml_dtypes
import numpy as np

FORMS = {
    "bf16": (
        "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
        "mma.m16n8k8.row.col.f32.bf16.bf16.f32",
        "wgmma.mma_async.m64n256k16.f32.bf16.bf16",
    ),
    "f16": ("mma.m16n8k16.row.col.f32.f16.f16.f32", "wgmma.mma_async.m64n64k16.f32.f16.f16"),
    "tf32": ("mma.m16n8k8.row.col.f32.tf32.tf32.f32", "wgmma.mma_async.m64n8k8.f32.tf32.tf32"),
    "f32": ("mma.m16n8k4.row.col.f32.tf32.tf32.f32",),
    "e4m3": ("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "wgmma.mma_async.m64n256k32.f32.e4m3.e4m3"),
    "e5m2": ("wgmma.mma_async.m64n8k32.f32.e5m2.e5m2",),
}
NUMPY = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "tf32": np.float32,
    "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
ROOM = {"f16": 3, "e4m3": 3, "e5m2": 6}  # of exponents, so that no sum is beyond f16's or f32's largest number


def ranges(rng, places):
    """Products as ranges: neighbours joined as they come, some cut again, some with a step."""
    made = []
    for k in places:
        last = made[-1] if made else None
        if last and len(last) == 2 and last[1] == k and rng.random() < 0.8:
            last[1] = k + 1
        elif last and len(last) == 2 and last[1] - last[0] == 1 and k > last[1] and rng.random() < 0.5:
            last[1:] = [k + 1, k - last[0]]
        else:
            made.append([k, k + 1])
    return made


def node(rng, places, kind, forms, depth=0):
    """A sum of products in the order given."""
    how = rng.random()
    if len(places) > 1 and depth < 5 and how < 0.35:
        cuts = sorted(set(rng.integers(1, len(places), int(rng.integers(1, 4))).tolist()))
        parts = [places[at:end] for at, end in zip([0, *cuts], [*cuts, len(places)], strict=True)]
        return {"add": [node(rng, part, kind, forms, depth + 1) for part in parts]}
    own = {"fma": "f32"} if rng.random() < 0.35 else {"form": str(rng.choice(forms))}
    if len(places) > 1 and depth < 5 and how < 0.7:
        cut = int(rng.integers(1, len(places)))
        return {**own, "k": ranges(rng, places[cut:]), "c": node(rng, places[:cut], kind, forms, depth + 1)}
    return {**own, "k": ranges(rng, places)}


def order(rng, kind=None, arch=None, most=40):
    """An order of up to `most` products."""
    kind = kind or str(rng.choice(list(FORMS)))
    arch = arch or ("sm_90" if kind in ("e4m3", "e5m2") or rng.random() < 0.7 else "sm_80")
    k = int(rng.integers(1, most + 1))
    places = rng.permutation(k) if rng.random() < 0.5 else np.arange(k)
    forms = [form for form in FORMS[kind] if arch == "sm_90" or form.startswith("mma")]
    return {
        "arch": arch,
        "types": {"a": kind, "b": kind, "d": str(rng.choice(["f32", "f32", "f16", "bf16"]))},
        "k": k,
        "inputs": str(rng.choice(["exact", "nearest even", "nearest away", "cut"])) if "f32" in kind else "exact",
        "sum": node(rng, places.tolist(), kind, forms),
    }


def operands(rng, kind, k, rows=2, cols=2):
    """A and B as float32: of like size, of all sizes, cancelling in pairs, or with subnormals."""
    a, b = rng.normal(size=(rows, k)), rng.normal(size=(k, cols))
    spread, mode = ROOM.get(kind, 30), rng.integers(4)
    if mode:
        a, b = (side * 2.0 ** rng.integers(-spread, spread // 2 + 1, side.shape) for side in (a, b))
    if mode == 2 and k > 1:
        half = k // 2
        a[:, half : 2 * half], b[half : 2 * half] = -a[:, :half], b[:half]
    if mode == 3 and kind not in ROOM:
        a, b = a * 2.0 ** -rng.integers(50, 70), b * 2.0 ** -rng.integers(50, 75)
    small = {"f16": 20, "e4m3": 8, "e5m2": 14}.get(kind)
    if mode == 3 and small:
        a, b = a * 2.0**-small, b * 2.0 ** -int(rng.integers(0, small))
    return tuple(side.astype(np.float32).astype(NUMPY[kind]).astype(np.float32) for side in (a, b))
