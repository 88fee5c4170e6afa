#!/usr/bin/env python3
"""Writes src/chat/letters.def: the characters that Python's str methods treat otherwise than their general category says.

    tools/make_letter_table.py > src/chat/letters.def

The methods are those of the Python that runs this; its Unicode version stands in the file's first line.
"""
import unicodedata

ROWS = [
    ("LOWER", "str.islower, category not Ll", lambda c: c.islower() and unicodedata.category(c) != "Ll"),
    ("UPPER", "str.isupper, category not Lu", lambda c: c.isupper() and unicodedata.category(c) != "Lu"),
    ("DIGIT", "str.isdigit, category not Nd", lambda c: c.isdigit() and unicodedata.category(c) != "Nd"),
    ("NUMERIC", "str.isnumeric, category not N", lambda c: c.isnumeric() and unicodedata.category(c)[0] != "N"),
]


def ranges(wanted):
    first = None
    for cp in range(0x110001):
        yes = cp < 0x110000 and not 0xD800 <= cp < 0xE000 and wanted(chr(cp))
        if yes and first is None:
            first = cp
        elif not yes and first is not None:
            yield first, cp - 1
            first = None


print(f"/* Made by tools/make_letter_table.py from Unicode {unicodedata.unidata_version}: ranges of characters, sorted. */")
for name, why, wanted in ROWS:
    print(f"/* {why} */")
    print("\n".join(f"LETTERS({name}, {a:#06x}, {b:#06x})" for a, b in ranges(wanted)))
