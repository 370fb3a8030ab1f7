"""The packets that a line lost: python examples/find_gaps.py CAPTURE…"""

import sys

import pregao

seen = {}
for message in pregao.read(*sys.argv[1:]).messages():
    if message.stream == "incremental" and message.sequence_number is not None:
        line = message.channel, message.sequence_version
        seen.setdefault(line, set()).add(message.sequence_number)
for (channel, version), numbers in sorted(seen.items()):
    missing = max(numbers) - min(numbers) + 1 - len(numbers)
    print(f"channel {channel}, version {version}: {len(numbers):,} packets, {missing:,} missing")
