"""A failure is printed when it happens; pytest alone prints them all at the end."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(reporter))


class AtOnce:
    def __init__(self, reporter):
        self.reporter = reporter

    def pytest_runtest_logreport(self, report):
        if not report.failed or self.reporter.config.option.tbstyle == "no":
            return
        self.reporter.ensure_newline()
        self.reporter.write_sep("_", report.nodeid, red=True, bold=True)
        self.reporter.write_line(report.longreprtext)
        for name, text in report.sections:
            self.reporter.write_sep("-", name)
            self.reporter.write_line(text)

    pytest_collectreport = pytest_runtest_logreport

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        self.reporter.config.option.tbstyle = "no"
