"""Measuring: what runs where, the processes that it takes, and what is concluded from their readings.

campaign, runner                       the run loop: what is measured, by which worker, what follows from it
backend, worker                        workers
gpu, live, driver, machine_code, emulator   what they run on
fleet, fleet_dask                      many machines
merge                                  other people's findings and reports
survey                                 compilers compared
verify, multiplicands                  emitted code on a GPU
doctor                                 what this machine has
"""
