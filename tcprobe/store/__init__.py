"""Saved measurements: their files, and which table counts where several say something of the same fragment.

finding, measurement, kinds              what is saved
documents, layouts, results, findings    how it is saved
acceptance, consistency                  what is accepted
choose, cell                             which finding counts; what is documented otherwise
names                                    what a command line means
surveys                                  surveys of compilers and of packages
"""
