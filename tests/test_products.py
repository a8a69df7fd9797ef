"""`tcprobe kernel gemm --run`: what it says, what it refuses, and on a GPU that products are exact."""

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.kernel.products import ProductRun, product, rounded_bits
from tcprobe.run.backend import Device


def test_a_run_without_a_gpu_says_so(monkeypatch):
    def none():
        raise EnvironmentUnfitError("no usable NVIDIA GPU: none is visible.")

    monkeypatch.setattr("tcprobe.kernel.products.Gpu", none)
    done = CliRunner().invoke(main, ["kernel", "gemm", "--arch", "sm_80", "--type", "f16", "--run"])
    assert (done.exit_code, done.output) == (3, "Error: no usable NVIDIA GPU: none is visible.\n")


@pytest.mark.parametrize(
    ("target", "there", "words"),
    [
        ("sm_90", "sm_80", "runs on sm_90 only: use `arch` sm_80"),
        ("sm_89", "sm_86", "older than sm_89"),
    ],
)
def test_a_gpu_that_a_kernel_is_not_for_is_refused(monkeypatch, target, there, words):
    class Other:
        def devices(self):
            return [Device(0, "A GPU", there, "1", "13.0", "none")]

    monkeypatch.setattr("tcprobe.kernel.products.Gpu", Other)
    with pytest.raises(EnvironmentUnfitError, match=words):
        product(gemm(GemmOptions(target, "f16")))


OUTCOME = ProductRun("A GPU", (523, 389, 331), 0, 0, (512, 512, 512), 100.0, 200.0, 0.5, 0)


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        (OUTCOME, 0, "523x389x331 equal to NumPy's\n512x512x512: 100.0 TFLOP/s, cuBLAS 200.0: ratio 0.5\n"),
        (replace(OUTCOME, wrong=3, outside=2), 1, "3 elements differ from NumPy's, 2 bytes written outside D\n"),
        (replace(OUTCOME, apart=7), 1, "ratio 0.5; 7 elements differ from cuBLAS's\n"),
        (replace(OUTCOME, cublas=None, ratio=None, apart=None), 0, "cublasGemmEx does not multiply f16 into f16\n"),
    ],
)
def test_what_a_run_says(monkeypatch, outcome, code, words):
    monkeypatch.setattr("tcprobe.kernel.products.product", lambda kernel, size: outcome)
    asked = ["kernel", "gemm", "--arch", "sm_80", "--type", "f16", "--run"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == code
    assert words in done.output
    said = CliRunner().invoke(main, [*asked, "--json"])
    assert said.exit_code == code
    assert json.loads(said.output)["run"] == outcome.to_json()


@pytest.mark.parametrize("out", ["f16", "bf16", "f32", "s32"])
def test_whole_numbers_are_stored_as_their_type_has_them(out):
    values = np.arange(-300, 300)
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "s32": np.int32}
    assert (rounded_bits(values, out).view(kinds[out]) == values.astype(kinds[out])).all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("sm_75", "f16"),
        ("sm_80", "bf16"),
        ("sm_80", "tf32"),
        ("sm_80", "s8"),
        ("sm_90", "f16"),
        ("sm_90", "e4m3"),
    ],
)
def test_products_are_exact_on_a_gpu(target, kind):
    made = gemm(GemmOptions(target, kind))
    try:
        outcome = product(made, (640, 512, 384))
    except EnvironmentUnfitError as error:
        pytest.skip(str(error))
    assert outcome.right
