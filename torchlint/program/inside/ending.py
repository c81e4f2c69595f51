"""Ending a program from inside, once all that was asked for has been measured."""

from __future__ import annotations

import os


class Stop(BaseException):
    """Ends the program after the steps asked for; not an Exception, so that ``except Exception``
    lets it by."""


class Ending:
    """Ends the program: politely three times, then at once, as a bare ``except:`` swallows every
    exception."""

    def __init__(self) -> None:
        self.asked = 0

    def stop(self) -> None:
        """End the program.

        Raises:
            Stop: always, but for the fourth time.
        """
        self.asked += 1
        if self.asked > 3:
            os._exit(0)
        raise Stop("torchlint has measured the steps that it wanted")
