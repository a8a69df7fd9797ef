"""What people say, and the page of the site that has it: words that neither its title nor its headings have."""

SUBJECTS = {
    "play/banks.html": "bank conflict conflicts padding shared memory swizzle playground stride wavefronts "
    "avoid free way ldmatrix stmatrix ld.shared st.shared cp.async",
    "s/index.html": "swizzle swizzling shared memory xor banks tma modes cute",
    "s/swizzle-swizzle-32b.html": "swizzle<1,4,3> 32b tma pattern",
    "s/swizzle-swizzle-64b.html": "swizzle<2,4,3> 64b tma pattern",
    "s/swizzle-swizzle-128b.html": "swizzle<3,4,3> 128b tma pattern",
    "s/columns-of-floats.html": "column columns access way 32-way transpose",
    "cost.html": "latency throughput cycles cost interval speed how fast timing issue rate flops performance hmma sync",
    "numerics.html": "rounding mode precision numerics accumulate accumulation exact truncation subnormal nan denormal "
    "nearest deterministic",
    "tensor-memory.html": "tmem tensor memory tcgen05 blackwell b200 5th generation umma allocation columns lanes 512",
    "diff.html": "differences difference between archs change volta turing ampere hopper compare vs same gpus",
    "errata.html": "errata wrong manual error ptx isa documentation bug mistake figure cutlass layout",
    "audit.html": "audit package packages python triton cutlass tilelang tinygrad jax tvm layouts checked agree "
    "hardware",
    "compilers.html": "compiler compilers ptxas nvcc version versions cuda toolkit agree layout",
    "method.html": "how measured method trust guide",
    "method.html#descriptor": "descriptor",
    "method.html#holds": "who holds element owner which thread lane register has",
    "method.html#where": "where is x[i] fragment index lane i",
    "method.html#feeds": "trace feeds dot product contributes",
    "method.html#documented": "documented only unmeasured",
    "method.html#limits": "limits convention undefined",
    "contribute.html": "contribute measure my gpu pull request add",
    "play/wgmma.html": "descriptor lbo sbo leading stride byte offset dimension base matrix wgmma smem desc "
    "gmmadescriptor "
    "warpgroup calculator tensor map box tma cutensormapencodetiled dimensions k-major mn-major layout operands",
    "recipes/index.html": "recipes code examples how to kernel",
    "recipes/p-as-a.html": "p as a convert accumulator operand reuse fragment flash attention second gemm "
    "registers next mma",
    "recipes/softmax.html": "softmax online row max sum reduction warp shuffle shfl __shfl_xor_sync flash attention",
    "recipes/causal-mask.html": "causal mask attention apply accumulator registers triangular",
    "recipes/epilogue.html": "epilogue stmatrix write store accumulator shared memory coalesced",
    "recipes/repacked-weights.html": "weights repack packing interleave quantized int4 marlin w4a16 w4a8 "
    "dequantize gemm",
    "recipes/ldmatrix.html": "load ldmatrix a b tile shared memory trans",
    "recipes/kernel.html": "gemm kernel complete whole source code hgemm cuda matmul",
    "path/index.html": "whole path global memory shared tma cp.async ldmatrix wgmma mma pipeline step by step data "
    "element",
}
