"""``python -m torchlint``."""

import sys

# With -m, Python puts the current directory in front: a click.py there would be imported instead of click.
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from torchlint.cli.main import entry

if __name__ == "__main__":
    entry()
