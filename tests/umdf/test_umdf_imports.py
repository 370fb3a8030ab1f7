"""The package's exports are light: no machine of the feed needs numba or Arrow."""

import subprocess
import sys


def test_the_machines_come_without_numba_and_arrow():
    code = (
        "import sys; from pregao.umdf.arbitration import Arbiter;"
        " from pregao.umdf.events import EventNumbers;"
        " from pregao.umdf.gaps import InstrumentCount;"
        " Arbiter(), EventNumbers(), InstrumentCount(-1);"
        " print([name for name in ('numba', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
