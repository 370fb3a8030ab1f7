"""A day for hftbacktest: python examples/export_backtest.py LAKE SYMBOL FILE.npz."""

import subprocess
import sys

import numpy as np

lake, symbol, output = sys.argv[1:]
command = ["export", "hftbacktest", "--lake", lake, "--symbol", symbol, "-o", output, "--force"]
subprocess.run([sys.executable, "-m", "pregao", *command], check=True)
print(f"{len(np.load(output)['data']):,} events")
