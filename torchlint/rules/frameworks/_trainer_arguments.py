"""Calls of a Trainer with other arguments."""

from __future__ import annotations

import libcst as cst


def without_argument(call: cst.Call, arg: cst.Arg) -> cst.Call:
    """Return a call without one of its arguments."""
    args = [each for each in call.args if each is not arg]
    if args and call.args[-1] is arg:
        # What stands behind the last argument, a trailing comma or a line break, stays there.
        args[-1] = args[-1].with_changes(
            comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg
        )
    return call.with_changes(args=args)
