"""GEMMs in CuTe DSL for three generations of tensor cores: mma.sync, wgmma and tcgen05; D of f32 is A times B's lines.

A (m, k) and B (n, k) of f16, k contiguous; a tile of D a block of 128 threads. One stage: they are short, not fast.
"""

import cutlass
import cutlass.utils.blackwell_helpers as blackwell
import cutlass.utils.hopper_helpers as hopper
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
    warpgroup,
)
from cutlass.cute.nvgpu import warp as warps
from cutlass.cute.runtime import make_fake_tensor
from cutlass.tensor_utils import LayoutEnum

KIND, SUM = cutlass.Float16, cutlass.Float32
TILES = {"sm_80": (64, 64, 32), "sm_90a": (64, 64, 64), "sm_100a": (128, 64, 64)}  # m, n, k
COLUMNS = 64  # of tensor memory


def compiled(cute_, arch, m, n, k):
    """PTX of a product of that size; no GPU is asked."""
    product = {"sm_80": product_80, "sm_90a": product_90, "sm_100a": product_100}[arch]
    shapes = ((KIND, m, k), (KIND, n, k), (SUM, m, n))
    fakes = [make_fake_tensor(kind, (rows, cols), (cols, 1), assumed_align=16) for kind, rows, cols in shapes]
    return cute_.compile(product, *fakes, options="--keep-ptx").__ptx__


def grid(tile, a, b):
    return (cute.size(a, mode=[0]) // tile[0], cute.size(b, mode=[0]) // tile[1], 1)


@cute.jit
def product_80(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor):
    m, n, k = TILES["sm_80"]
    mma = cute.make_tiled_mma(
        warps.MmaF16BF16Op(KIND, SUM, (16, 8, 16)), cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16)
    )
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), KIND, num_bits_per_copy=128)
    copy = cute.make_tiled_copy_tv(atom, cute.make_layout((32, 4), stride=(4, 1)), cute.make_layout((1, 8)))
    rows = cute.make_composed_layout(cute.make_swizzle(2, 3, 3), 0, cute.make_layout((8, k), stride=(k, 1)))
    of_a, of_b = cute.tile_to_shape(rows, (m, k), (0, 1)), cute.tile_to_shape(rows, (n, k), (0, 1))
    kernel_80(a, b, d, mma, copy, of_a, of_b).launch(grid=grid((m, n), a, b), block=(128, 1, 1))


@cute.kernel
def kernel_80(
    a: cute.Tensor,
    b: cute.Tensor,
    d: cute.Tensor,
    mma: cute.TiledMma,
    copy: cute.TiledCopy,
    of_a: cute.ComposedLayout,
    of_b: cute.ComposedLayout,
):
    m, n, k = TILES["sm_80"]
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    tiles_a, tiles_b = cute.local_tile(a, (m, k), (x, None)), cute.local_tile(b, (n, k), (y, None))
    memory = cutlass.memory.SmemAllocator()
    shared_a, shared_b = memory.allocate_tensor(KIND, of_a, 16), memory.allocate_tensor(KIND, of_b, 16)
    own, part = copy.get_slice(thread), mma.get_slice(thread)
    from_a, to_a = own.partition_S(tiles_a), own.partition_D(shared_a)
    from_b, to_b = own.partition_S(tiles_b), own.partition_D(shared_b)
    held_a = mma.make_fragment_A(part.partition_A(shared_a))
    held_b = mma.make_fragment_B(part.partition_B(shared_b))
    out = part.partition_C(cute.local_tile(d, (m, n), (x, y)))
    sums = mma.make_fragment_C(out)
    sums.fill(0.0)
    atom = cute.make_copy_atom(warps.LdMatrix8x8x16bOp(False, 4), KIND)
    load_a, load_b = cute.make_tiled_copy_A(atom, mma), cute.make_tiled_copy_B(atom, mma)
    own_a, own_b = load_a.get_slice(thread), load_b.get_slice(thread)
    for tile in range(cute.size(tiles_a, mode=[2])):
        cute.copy(copy, from_a[None, None, None, tile], to_a)
        cute.copy(copy, from_b[None, None, None, tile], to_b)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        cute.copy(load_a, own_a.partition_S(shared_a), own_a.retile(held_a))
        cute.copy(load_b, own_b.partition_S(shared_b), own_b.retile(held_b))
        cute.gemm(mma, sums, held_a, held_b, sums)
        cute.arch.sync_threads()
    cute.autovec_copy(sums, out)


@cute.jit
def product_90(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor):
    m, n, k = TILES["sm_90a"]
    major = OperandMajorMode.K
    mma = hopper.make_trivial_tiled_mma(KIND, KIND, major, major, SUM, (1, 1, 1), (m, n))
    of_a = hopper.make_smem_layout_a(LayoutEnum.ROW_MAJOR, (m, n, k), KIND, 1)
    of_b = hopper.make_smem_layout_b(LayoutEnum.ROW_MAJOR, (m, n, k), KIND, 1)
    load = cpasync.CopyBulkTensorTileG2SOp()
    atom_a, map_a = cpasync.make_tiled_tma_atom(load, a, cute.select(of_a, mode=[0, 1]), (m, k))
    atom_b, map_b = cpasync.make_tiled_tma_atom(load, b, cute.select(of_b, mode=[0, 1]), (n, k))
    made = kernel_90(mma, atom_a, map_a, atom_b, map_b, d, of_a, of_b)
    made.launch(grid=grid((m, n), a, b), block=(128, 1, 1))


@cute.kernel
def kernel_90(
    mma: cute.TiledMma,
    atom_a: cute.CopyAtom,
    a: cute.Tensor,
    atom_b: cute.CopyAtom,
    b: cute.Tensor,
    d: cute.Tensor,
    of_a: cute.ComposedLayout,
    of_b: cute.ComposedLayout,
):
    m, n, k = TILES["sm_90a"]
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    memory = cutlass.memory.SmemAllocator()
    full = memory.allocate_array(cutlass.Int64, 1)
    shared_a = memory.allocate_tensor(KIND, of_a.outer, 1024, swizzle=of_a.inner)
    shared_b = memory.allocate_tensor(KIND, of_b.outer, 1024, swizzle=of_b.inner)
    if thread == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    one = cute.make_layout(1)
    tiles_a, tiles_b = cute.local_tile(a, (m, k), (x, None)), cute.local_tile(b, (n, k), (y, None))
    to_a, from_a = cpasync.tma_partition(
        atom_a, 0, one, cute.group_modes(shared_a, 0, 2), cute.group_modes(tiles_a, 0, 2)
    )
    to_b, from_b = cpasync.tma_partition(
        atom_b, 0, one, cute.group_modes(shared_b, 0, 2), cute.group_modes(tiles_b, 0, 2)
    )
    part = mma.get_slice(thread)
    held_a = mma.make_fragment_A(part.partition_A(shared_a))
    held_b = mma.make_fragment_B(part.partition_B(shared_b))
    out = part.partition_C(cute.local_tile(d, (m, n), (x, y)))
    sums = mma.make_fragment_C(out.shape)
    for tile in range(cute.size(tiles_a, mode=[2]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, 2 * k * (m + n))
            cute.copy(atom_a, from_a[None, tile], to_a[None, 0], tma_bar_ptr=full)
            cute.copy(atom_b, from_b[None, tile], to_b[None, 0], tma_bar_ptr=full)
        cute.arch.mbarrier_wait(full, tile % 2)
        warpgroup.fence()
        mma.set(warpgroup.Field.ACCUMULATE, tile != 0)
        for step in cutlass.range_constexpr(cute.size(held_a, mode=[2])):
            cute.gemm(mma, sums, held_a[None, None, step, 0], held_b[None, None, step, 0], sums)
            mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()
    cute.autovec_copy(sums, out)


@cute.jit
def product_100(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor):
    tile = TILES["sm_100a"]
    m, n, _ = tile
    major = OperandMajorMode.K
    mma = blackwell.make_trivial_tiled_mma(KIND, KIND, major, major, SUM, tcgen05.CtaGroup.ONE, (m, n))
    of_a = blackwell.make_smem_layout_a(mma, tile, KIND, 1)
    of_b = blackwell.make_smem_layout_b(mma, tile, KIND, 1)
    load = cpasync.CopyBulkTensorTileG2SOp()
    atom_a, map_a = make_tiled_tma_atom_A(load, a, cute.select(of_a, mode=[0, 1, 2]), tile, mma)
    atom_b, map_b = make_tiled_tma_atom_B(load, b, cute.select(of_b, mode=[0, 1, 2]), tile, mma)
    made = kernel_100(mma, atom_a, map_a, atom_b, map_b, d, of_a, of_b)
    made.launch(grid=grid((m, n), a, b), block=(128, 1, 1))


@cute.kernel
def kernel_100(
    mma: cute.TiledMma,
    atom_a: cute.CopyAtom,
    a: cute.Tensor,
    atom_b: cute.CopyAtom,
    b: cute.Tensor,
    d: cute.Tensor,
    of_a: cute.ComposedLayout,
    of_b: cute.ComposedLayout,
):
    m, n, k = TILES["sm_100a"]
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    memory = cutlass.memory.SmemAllocator()
    full, slot = memory.allocate_array(cutlass.Int64, 2), memory.allocate_array(cutlass.Int32, 1)
    done = full + 1
    shared_a = memory.allocate_tensor(KIND, of_a.outer, 1024, swizzle=of_a.inner)
    shared_b = memory.allocate_tensor(KIND, of_b.outer, 1024, swizzle=of_b.inner)
    if warp == 0:
        cute.arch.alloc_tmem(COLUMNS, slot)
    if thread == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init(done, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    columns = cute.arch.retrieve_tmem_ptr(SUM, 16, slot)
    one, part = cute.make_layout(1), mma.get_slice(0)
    tiles_a = part.partition_A(cute.local_tile(a, (m, k), (x, None)))
    tiles_b = part.partition_B(cute.local_tile(b, (n, k), (y, None)))
    tile_d = part.partition_C(cute.local_tile(d, (m, n), (x, y)))
    to_a, from_a = cpasync.tma_partition(
        atom_a, 0, one, cute.group_modes(shared_a, 0, 3), cute.group_modes(tiles_a, 0, 3)
    )
    to_b, from_b = cpasync.tma_partition(
        atom_b, 0, one, cute.group_modes(shared_b, 0, 3), cute.group_modes(tiles_b, 0, 3)
    )
    held_a, held_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)
    sums = cute.make_tensor(columns, mma.make_fragment_C(mma.partition_shape_C((m, n))).layout)
    for tile in range(cute.size(from_a, mode=[1]), unroll=1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, 2 * k * (m + n))
            cute.copy(atom_a, from_a[None, tile], to_a[None, 0], tma_bar_ptr=full)
            cute.copy(atom_b, from_b[None, tile], to_b[None, 0], tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, tile % 2)
            mma.set(tcgen05.Field.ACCUMULATE, tile != 0)
            for step in cutlass.range_constexpr(cute.size(held_a, mode=[2])):
                cute.gemm(mma, sums, held_a[None, None, step, 0], held_b[None, None, step, 0], sums)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            with cute.arch.elect_one():
                tcgen05.commit(done)
        cute.arch.mbarrier_wait(done, tile % 2)
        cute.arch.sync_threads()  # or a warp that is late misses the phase
    whole = sums[((None, None), 0, 0)]
    load = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), SUM), whole)
    own = load.get_slice(thread)
    out = own.partition_D(tile_d[((None, None), 0, 0)])
    held = cute.make_rmem_tensor(out.shape, SUM)
    cute.copy(load, own.partition_S(whole), held)
    cute.arch.fence_view_async_tmem_load()
    cute.autovec_copy(held, out)
    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(columns, COLUMNS)
