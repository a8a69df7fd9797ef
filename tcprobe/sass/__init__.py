"""Reading layouts from machine code: a probe kernel is assembled for any arch, disassembled, and run by a small
interpreter for the 32 lanes of a warp, on the same memory images that a GPU would get.

    toolchain   finds ptxas and nvdisasm
    cubin       assembles probes and takes the code of each kernel apart
    decode      one line of disassembly -> Instruction
    machine     registers, memory, and the run of a kernel for all its warps at once
    opcodes     one function per opcode

What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
