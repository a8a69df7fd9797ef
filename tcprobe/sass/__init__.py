"""Layouts from machine code: a probe is assembled for any arch and disassembled; a small interpreter then runs it for
the 32 lanes of a warp, on the memory images that a GPU would get.

    toolchain   finds ptxas and nvdisasm
    cubin       assembles probes; the code of each kernel
    decode      one line of disassembly -> CodeLine
    machine     registers, memory, and the run of a kernel for all its warps at once
    opcodes     one function per opcode

What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
