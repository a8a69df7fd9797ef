"""The example of attention: it compiles without a word for every form, and on a GPU it is what f64 says."""

import sys
from pathlib import Path

import nvrtc
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import attention
from attention import Attention

ALL = [Attention(arch, head, causal) for arch, head in attention.FORMS for causal in (False, True)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.name)
def test_it_compiles_without_a_word(asked):
    library = nvrtc.library()
    if not library:
        pytest.skip("no NVRTC here")
    target = "sm_90a" if asked.arch == "sm_90" else asked.arch
    assert nvrtc.compile_cuda(library, attention.source(asked), f"-arch={target}", "-std=c++17") == (True, "")


def test_all_layouts_are_answers():
    """The loop names no lane, no register and no swizzle of its own."""
    for name, answers in (
        ("sm_80", ("Q::load_k", "K::fill", "V::load_k", "Multiply::mma", "convert(", "softmax(")),
        ("sm_90", ("Scores::mma", "Values::mma<1, 1, 0, 1>", "convert(", "softmax(")),
    ):
        loop = (Path(attention.__file__).parent / f"attention_{name}.cu").read_text()
        assert not any(
            word in loop for word in ("ldmatrix", "shfl", "mma.sync", "wgmma.mma_async", "lane &", "lane >>")
        )
        text = attention.source(Attention(name, 128, True))
        assert all(answer in text for answer in answers)
        assert "registers renamed: every lane already holds what it needs" in text


def test_shared_memory_fits():
    assert max(attention.shared_bytes(asked) for asked in ALL) <= 227 << 10
    assert attention.shared_bytes(Attention("sm_80", 128)) <= 99 << 10


def test_the_command(capsys):
    assert attention.main(["sm_80", "64", "--causal"]) == 0
    assert "constexpr bool CAUSAL = true;" in capsys.readouterr().out
    for wrong in ([], ["sm_80"], ["sm_80", "96"], ["sm_90", "64", "--fast"]):
        assert attention.main(wrong) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.name)
def test_it_is_what_f64_says(asked):
    pytest.importorskip("torch")
    from tcprobe.run.gpu import Gpu

    found = Gpu().devices()[0].arch
    if int(found[3:]) < 80 or (asked.arch == "sm_90" and found != "sm_90"):
        pytest.skip(f"{asked.arch}'s kernel does not run on {found}")
    import attention_run

    assert attention_run.run(asked, small=True) == 0
