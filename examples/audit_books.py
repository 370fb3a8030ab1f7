"""Whether the rebuilt books equal the snapshots: python examples/audit_books.py LAKE."""

import sys

import pregao

audit = pregao.Lake(sys.argv[1]).audit()
print(f"{audit.results['equal']:,} of {audit.snapshots:,} snapshots equal")
assert audit.passed
