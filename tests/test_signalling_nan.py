"""NaNs that signal are taken without a warning, in every type that numbers may have."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import tcprobe

SIGNALLING = {
    "f16": np.array([0x7C01], np.uint16).view(np.float16),
    "bf16": np.array([0x7F81], np.uint16).view(ml_dtypes.bfloat16),
    "tf32": np.array([0x7F802000], np.uint32).view(np.float32),
    "e5m2": np.array([0x7D], np.uint8).view(ml_dtypes.float8_e5m2),
    "e4m3": np.array([0x7F], np.uint8).view(ml_dtypes.float8_e4m3fn),
}
FORMS = {
    "f16": "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "bf16": "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "tf32": "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
    "e5m2": "mma.m16n8k32.row.col.f32.e5m2.e5m2.f32",
    "e4m3": "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32",
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("given_as", [None, "f16", "tf32"])
def test_a_signalling_nan_gives_nan_and_no_warning(kind, given_as):
    nan = SIGNALLING[given_as or kind]
    k = int(FORMS[kind].split(".")[1].rpartition("k")[2])
    a = np.ones(k, nan.dtype)
    a[k // 2] = nan[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        d = tcprobe.numerics.dot(FORMS[kind], a, np.ones(k), np.float32(1))
    assert np.isnan(d)
