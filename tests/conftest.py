"""Pytest's settings for every Python test; tests/support.py has what they share.

`make check` reaches pytest through tests/run; by hand: python -m pytest tests/arch -k qwen3.
"""
import os

import support


def pytest_configure():
    os.chdir(support.ROOT)


def pytest_report_header():
    return f"program: {support.PROGRAM}"
