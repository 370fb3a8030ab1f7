"""Messages of captures, one by one: python examples/read_messages.py CAPTURE…"""

import sys
from itertools import islice

import pregao

for message in islice(pregao.read(*sys.argv[1:]).messages(), 5):
    print(message.capture_time_ns, message.template, message.values)
