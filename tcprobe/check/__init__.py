"""What is wrong or slow in a kernel: rules over machine code, which `tcprobe.sass` reads and follows.

    rule            what a rule is, what it finds, and all rules there are
    rules           a file a rule
    counting        rules that count wavefronts and sectors
    published       what a survey of kernels found
    code_check      files in, findings out
    report          findings as JSON objects, SARIF and baselines
    question        the command `check`

A rule follows the control flow and decides on what every path, or some path, does. What it cannot decide it says by a
note with the reason.
"""
