"""Pages of a results folder, made from its tables alone.

overview                  all pages of a folder, and those of what is measured: the overview, what changes between archs
machine_code, numbers,
tensor_memory, errata     lowering and compilers; cost and numerics; tcgen05; errata and undocumented selectors
tables                    Markdown
site                      the site
"""
