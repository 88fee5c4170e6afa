"""Pytest's settings for every Python test; tests/testlib.py has what they share.

`make check` reaches pytest through tests/run, which reads the counts printed below; by hand:
python -m pytest tests/arch -k qwen3.
"""
import os
import signal

import pytest

import testlib

TEST_TIMEOUT = 120  # seconds; a test that hangs fails, and the others still run


def pytest_configure():
    os.chdir(testlib.ROOT)


def pytest_report_header():
    return f"program: {testlib.PROGRAM}"


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


def pytest_terminal_summary(terminalreporter):
    """One line in the words of tests/run. An error outside a test's body is a failure; an expected failure a skip."""
    n = lambda *kinds: sum(len(terminalreporter.stats.get(k, ())) for k in kinds)
    terminalreporter.write_line(f"{n('passed')} passed, {n('failed', 'error', 'xpassed')} failed, "
                                f"{n('skipped', 'xfailed')} skipped")
