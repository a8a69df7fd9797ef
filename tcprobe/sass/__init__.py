"""Machine code: read from files, disassembled, and followed.

    toolchain, cubin, elf                      from PTX to the code of a probe
    image, code_files, source_lines            untrusted files, and what they say of their functions
    matrix_code                                matrix instructions in large amounts of code
    disassemble, registers, kernel             functions as graphs of instructions: text, registers, blocks, loops
    flow                                       facts that hold at every instruction, to a fixed point
    lanes, integers, interpreter               what the lanes of a warp hold, by what instructions make of it
    threads, frame, state, dependence, reader   threads of a block; words of the stack; states; operands
    addresses, requests, sums                  where loads and stores reach, and what that costs
    iterations                                 loops taken apart, so that a ring's stages are numbers
    decode, machine, opcodes, emulation,
    tensor_product                             exact values of 32 lanes, a function for each opcode of the probes
    copies, moves                              layouts of what moves data
    tensor, product_check, evidence, derive    layouts of multiplies
    lowering                                   what instructions become

A probe is assembled for any arch and disassembled; a small interpreter runs it on the memory images that a GPU would
get. What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
