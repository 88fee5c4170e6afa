"""Pytest's settings for every Python test; tests/testlib.py has what they share.

`make check` reaches pytest through tests/run, which turns pytest's summary off: then a failure is printed when it
happens, so that nothing is lost when a run is stopped, and the counts come last in the words that tests/run reads.
By hand: python -m pytest tests/arch -k qwen3.
"""
import os
import signal

import pytest

import testlib

TEST_TIMEOUT = 120  # seconds; a test that hangs fails, and the others still run


def pytest_configure(config):
    os.chdir(testlib.ROOT)
    if config.option.no_summary:
        config.pluginmanager.register(Reporter(config))


class Reporter:
    """Failures at once, counts at the end."""

    def __init__(self, config):
        self.plugins = config.pluginmanager

    @property
    def terminal(self):
        return self.plugins.get_plugin("terminalreporter")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            captured = "".join(f"\n{title}:\n{text}" for title, text in report.sections)
            self.terminal.write_line(f"\n{report.nodeid} ({report.when}) FAILED\n{report.longreprtext}{captured}")

    def pytest_collectreport(self, report):
        if report.failed:
            self.terminal.write_line(f"\n{report.nodeid} cannot be read\n{report.longreprtext}")

    def pytest_unconfigure(self):
        """An error outside a test's body is a failure; an expected failure a skip."""
        n = lambda *kinds: sum(len(self.terminal.stats.get(k, ())) for k in kinds)
        self.terminal.write_line(f"{n('passed')} passed, {n('failed', 'error', 'xpassed')} failed, "
                                 f"{n('skipped', 'xfailed')} skipped")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    def stop(signum, frame):
        raise TimeoutError(f"{item.name}: still running after {TEST_TIMEOUT} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(TEST_TIMEOUT)
    try:
        return (yield)
    finally:
        signal.alarm(0)
