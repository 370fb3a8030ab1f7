"""Python and the command, run as if packages were not installed."""

import subprocess
import sys

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
import importlib.util as util
real = util.find_spec
util.find_spec = lambda name, *rest: None if name in {blocked!r} else real(name, *rest)
{code}
"""
COMMAND = "sys.argv = ['pregao', *{arguments!r}]\nfrom pregao.cli.main import run\nrun()"


def without(blocked, code, folder):
    """Run Python in a folder as if packages were not installed."""
    text = BLOCKED.format(blocked=set(blocked), code=code)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=folder, check=False
    )


def command(blocked, arguments, folder):
    return without(blocked, COMMAND.format(arguments=[str(each) for each in arguments]), folder)
