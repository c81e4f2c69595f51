"""Runs a command that cannot write outside the given folders: ``sandbox.py --landlock --write DIR
-- COMMAND...``.

Run as a script by torchlint's own interpreter (``-I -S``, so it imports the standard library only),
because the restriction has to be in force before the user's interpreter starts. Landlock needs no
privileges and is inherited by all descendants. It is asked which rights it knows (its ABI); only
rights that write are handled, so all reading stays.

What it does not refuse: ``chmod``, ``chown``, ``utime`` and extended attributes anywhere;
``truncate`` by path before ABI 3 (Linux 6.2); traffic over the network and over sockets. With ABI 1
(Linux 5.13 to 5.18) a rename from one folder to another fails even inside the given folders.
Source: Linux, Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import struct
import sys
from collections.abc import Iterable
from typing import NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = 0b1_1111_1111 << 4  # REMOVE_DIR, REMOVE_FILE, MAKE_CHAR ... MAKE_SYM
_FILE_RIGHTS = _WRITE_FILE | _TRUNCATE
"""The rights that a rule for something other than a folder may name."""
_ALWAYS = ("/dev", "/proc", "/dev/shm")
"""Devices, ``/proc/self/clear_refs``, and shared memory and semaphores of DataLoader workers."""


def landlock_abi() -> int:
    """Return the version of Landlock that this system offers; 0 where there is none or it is
    switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    number, flag = ctypes.c_long(_CREATE_RULESET), ctypes.c_uint32(_VERSION_FLAG)
    version: int = _libc().syscall(number, None, ctypes.c_size_t(0), flag)
    return max(0, version)


def write_rights(abi: int) -> int:
    """Return the rights to handle: all that create, change or remove, as far as an ABI knows
    them."""
    return (
        _WRITE_FILE
        | _REMOVE_AND_MAKE
        | (_REFER if abi >= 2 else 0)
        | (_TRUNCATE if abi >= 3 else 0)
    )


def confine(writable: Iterable[str]) -> None:
    """Forbid this process and all its descendants, for good, to write anywhere else.

    Raises:
        OSError: the system refuses, or a path of `writable` does not exist.
    """
    rights = write_rights(landlock_abi())
    ruleset = _call(
        _CREATE_RULESET, _bytes(struct.pack("=Q", rights)), ctypes.c_size_t(8), ctypes.c_uint32(0)
    )
    for path in (*writable, *filter(os.path.exists, map(os.path.realpath, _ALWAYS))):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & _FILE_RIGHTS
        rule = _bytes(struct.pack("=Qi", allowed, descriptor))
        _call(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)
        )
        os.close(descriptor)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends, also by ``kill -9``; the setting outlives
    exec, not fork.

    Linux counts the *thread* that started the process as its parent, so only the main thread may
    start it.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _bytes(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))


def _call(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(
        option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"torchlint: {message}\n")
    sys.stderr.flush()
    os._exit(code)


def main(arguments: list[str]) -> NoReturn:
    """Apply the options before ``--``, then become the command after it. Exits 126 or 127 where
    that is impossible.

    Options: ``--parent PID`` (die with it), ``--landlock`` (refuse writes), ``--write PATH`` (but
    here; repeatable).
    """
    split = arguments.index("--")
    options, command = iter(arguments[:split]), arguments[split + 1 :]
    writable: list[str] = []
    landlock, parent = False, 0
    for option in options:
        if option == "--landlock":
            landlock = True
        elif option == "--write":
            writable.append(next(options))
        elif option == "--parent":
            parent = int(next(options))
        else:
            _fail(f"unknown option {option}", 126)
    try:
        if parent:
            die_with(parent)
        if landlock:
            confine(writable)
    except OSError as error:
        _fail(f"writes cannot be confined: {error}", 126)
    # Python ignores these two, and what is ignored stays so after exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        _fail(f"cannot run {command[0]}: {error.strerror}", 127)


if __name__ == "__main__":
    main(sys.argv[1:])
