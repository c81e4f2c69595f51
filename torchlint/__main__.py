"""The program ``torchlint``, and ``python -m torchlint``."""

import sys

# With -m, Python puts the current directory in front: a click.py there would be imported instead of
# click.
if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]


def program() -> None:
    """Run as a program; Ctrl-C is one line already while our own modules are imported."""
    try:
        from torchlint.cli.main import entry

        entry()
    except KeyboardInterrupt:
        import os

        os.write(2, b"torchlint: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    program()
