"""The tables of tiny models of every family, one module a kind of block; see row.py."""
import importlib
import pkgutil

HELPERS = {"draws", "options", "reference", "row"}


def all_rows():
    """name -> Row of every table."""
    rows = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        if module in HELPERS:
            continue
        for row in importlib.import_module(f"families.{module}").ROWS:
            if row.name in rows:
                raise ValueError(f"{row.name} stands twice")
            rows[row.name] = row
    return rows
