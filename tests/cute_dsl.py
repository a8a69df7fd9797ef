"""CuTe DSL for an arch: it reads CUTE_DSL_ARCH once, when it is imported, so tests of one process say it again."""


def for_arch(monkeypatch, arch):
    """The module `cutlass.cute`, whose atoms are made for `arch` until the test ends."""
    monkeypatch.setenv("CUTE_DSL_ARCH", arch)
    import cutlass.cute
    from cutlass.cutlass_dsl import CuTeDSL

    monkeypatch.setattr(CuTeDSL._get_dsl().envar, "arch", arch)
    return cutlass.cute
