"""Number of messages of each template: python examples/count_templates.py CAPTURE…"""

import sys
from collections import Counter

import pregao

counts = Counter(message.template for message in pregao.read(*sys.argv[1:]).messages())
for template, count in counts.most_common():
    print(f"{count:>10,} {template}")
