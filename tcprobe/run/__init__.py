"""Measuring: what runs where, the processes that it takes, and what is concluded from their readings.

selection, plans, campaign, runner, conclude, drafts, origin   the run loop
backend, worker, wire, process                                 workers
gpu, live, driver, emulator, machine_code, toolkits            what they run on
fleet*                                                         many machines
report, merge                                                  other people's findings
compilers, survey                                              compilers compared
verify*, multiplicands, products                               emitted code on a GPU
doctor                                                         what this machine has
"""
