"""Record groups as pcap: python examples/live_recorder.py FOLDER INTERFACE GROUP:PORT…"""

import sys
from pathlib import Path

from pregao.live import Recorder, RecordSettings
from pregao.net.addresses import find_interface, parse_address
from pregao.net.receiver import open_receiver
from pregao.net.sockets import receive_socket

folder, interface, groups = Path(sys.argv[1]), find_interface(sys.argv[2]), sys.argv[3:]
receiver = open_receiver()
with Recorder(RecordSettings(folder, name="recorded")) as recorder:
    for text in groups:
        group = parse_address(text, "GROUP:PORT")
        recorder.line(receiver.add(receive_socket(group, interface=interface)), group)
    print("recording", flush=True)
    try:
        while True:
            recorder.write(receiver.receive(1.0))
    except KeyboardInterrupt:
        print(f"{recorder.packets:,} packets in {recorder.files:,} files")
