"""What is wrong or slow in a kernel: rules over machine code.

    registers       which registers an instruction reads and writes, from its text
    program         a function's code as a graph: instructions, blocks, calls, what cannot be followed
    flow            facts that hold at every instruction, to a fixed point
    lanes           what every lane of a warp holds in a register, as far as it follows
    threads, frame, held, dependence
                    the threads of a block; words of the stack; what holds at a place; what a result depends on
    reader, integers, interpreter
                    operands; what an opcode makes of them; what an instruction leaves in registers
    addresses       where loads and stores reach
    rounds          loops taken apart, round by round, so that a ring's stages are numbers
    sums            what addresses of global memory are sums of
    rule            what a rule is, what it finds, and all rules there are
    rules           a file a rule
    code_check      files in, findings out
    report          findings as JSON objects, SARIF and baselines
    question        the command `check`

A rule follows the control flow and decides on what every path, or some path, does. What it cannot decide it says by a
note with the reason.
"""
