"""Measuring: what runs where, the processes that it takes, and what is concluded from their readings.

campaign                               what is asked, which experiments that means, what is reported
runner                                 experiments through a worker that may be lost; each finding is saved
backend, worker                        the worker: plans, compiles and runs a job
gpu, live, driver, machine_code, emulator   what they run on
fleet, fleet_dask                      many machines
merge                                  other people's findings and reports
survey                                 compilers compared
verify, multiplicands                  emitted code on a GPU
doctor                                 what this machine has
"""
