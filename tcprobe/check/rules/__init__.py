"""A rule a file, as `tcprobe.check.rule` says."""
