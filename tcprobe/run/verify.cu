$[ macro gather(matrix, cell, pointer, pitch, to) -]$
gather<${struct(cell)}>(${lane(matrix)}, ${pointer}, ${pitch}, variant[${"abc".index(matrix)}], ${nan(cell)}, ${to});
$[- endmacro ]$
$[ macro lane(matrix) -]$
${"lane_of(variant[3] == %d)" % wrong.index(matrix) if matrix in wrong else "threadIdx.x"}
$[- endmacro ]$
$ set d, e, adds = case.operands.d, case.operands.get("e"), "c" not in case.operands

namespace ${name}_ {
typedef unsigned long long uint64_t;
$ set index = ", const unsigned char* index" if e else ""
extern "C" __global__ void ${name}(const u64* a, const u64* b, const u64* c, const int* variants${index}, u64* d) {
  const int placed = blockIdx.x % ${case.swizzles | length}, *variant = variants + blockIdx.x / ${case.swizzles | length} * 4;
  (void)placed;
$ for operand, cell in registers.items()
  ${"u64" if cell.fragment.register_bits == 64 else "unsigned"} r${operand}[${struct(cell)}::registers];
$ endfor
  ${gather("c", case.sums, "c", case.sums.fragment.cols, "rd" if adds else "rc")}
$ for factor in case.shared
  uint64_t d${factor.matrix} = 0; int next_${factor.matrix}[${steps}] = {};
$ endfor
$ if case.shared

  // dynamic shared memory that begins where every pattern does, all zero
  extern __shared__ __align__(${period}) unsigned char given[];
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(given));
  unsigned char* const memory = given + (${period} - first % ${period}) % ${period};
  for (int at = threadIdx.x * 4; at < ${starts[-1]}; at += blockDim.x * 4) *reinterpret_cast<unsigned*>(memory + at) = 0;
  __syncthreads();

  switch (placed) {
$ for swizzle in case.swizzles
  case ${loop.index0}:  // swizzle ${swizzle or "none"}
$ for factor, start in zip(case.shared, starts)
$ set tile, lines, k, of = factor.tile(swizzle), factor.extent[0], factor.extent[1], factor.matrix
$ set element = "e / %d * %d + e %% %d" % (k, k, k) if of == "a" else "e %% %d * %d + e / %d" % (k, lines, k)
    {
      unsigned char* const smem = memory + ${start};
      #pragma unroll 1
      for (int e = threadIdx.x; e < ${lines * k}; e += blockDim.x) {
        const int line = e / ${k}${" ^ (variant[3] == %d)" % wrong.index(of) if of in wrong else ""}, k = e % ${k};
        put<${tile.bits}>(smem, ${tile.formula}, k, ${of}[${element}]);
      }
      ${descriptor(tile)}
      d${of} = desc;
$ for size in (tile.per_k * (steps - 1) if tile.per_k | length == 1 else tile.per_k)
      next_${of}[${loop.index0}] = ${size // unit};
$ endfor
    }
$ endfor
    break;
$ endfor
  }
  asm volatile("fence.proxy.async;" : : : "memory");
  __syncthreads();
$ endif
  #pragma unroll 1
  for (int step = 0; step < ${case.steps}; ++step) {
$ for o, cell in case.factors.items()
$ set cols, by_step = cell.fragment.cols, " + step * %d" % cell.fragment.cols if case.steps > 1 else ""
    ${gather(o, cell, o ~ by_step, case.steps * cols, "r" ~ o)}
$ endfor
$ if e
$ set of_step = e.fragment.rows * e.fragment.cols // e.fragment.span
    const unsigned re = tcprobe::metadata<${struct(e)}>(${lane("e")}, index + step * ${of_step});
$ endif
$ for operand, cell in passed.items()
    typename ${struct(cell)}::word p${operand}[${struct(cell)}::registers]; copied(p${operand}, r${operand});
$ endfor
$ if case.shared
    $[ for operand in passed ]$${function}::fence_operand(p${operand}); $[ endfor ]$${function}::fence();
$ endif
    ${function}::mma${template}(${arguments | join(", ")});
$ if case.shared
    ${function}::commit_group(); ${function}::wait_group(); ${function}::fence_operand(pd);
$ endif
    copied(rd, pd);
$ for factor in case.shared
    d${factor.matrix} += next_${factor.matrix}[step];
$ endfor
  }
$ set size = "::products * %s::rows * %s::cols" % (struct(d), struct(d))
  scatter<${struct(d)}>(d + blockIdx.x * ${struct(d)}${size}, rd);
}
}
