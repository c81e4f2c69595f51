"""``--shard I/N``: one of N parts of a run, so that N machines can share the work."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.cli.options import Given
from torchlint.cli.scope import Scope, place_under
from torchlint.settings.keys import Decides, deciding

_FORM = regex(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", re.ASCII)


@frozen
class Shard:
    """Part `number` (from 1) of `total`. A file's path under the root alone decides on its part."""

    number: int
    total: int

    def narrowed(self, scope: Scope) -> Scope:
        """Return the part's files; what could not be read is shared out in the same way."""
        import hashlib  # loads OpenSSL

        root = scope.settings.root

        def is_mine(filename: str) -> bool:
            place = place_under(root, filename).encode("utf-8", "surrogateescape")
            return (
                int.from_bytes(hashlib.sha256(place).digest()[:8], "big") % self.total
                == self.number - 1
            )

        return replace(
            scope,
            targets=tuple(target for target in scope.targets if is_mine(target.found.filename)),
            skipped=tuple(skip for skip in scope.skipped if is_mine(skip.filename)),
        )


def asked_for(whole: Scope, given: Given) -> str:
    """Return a digest of what decides on the findings of a run: all its shards have the same, on
    every machine."""
    import hashlib

    every = (whole.settings, *(each.settings for each in whole.targets))
    used = sorted(
        {repr(deciding(settings, Decides.FINDINGS, Decides.REPORT)) for settings in every}
    )
    words = json.dumps([used, given["since"], given["fix"], given["ignore_noqa"]])
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def parsed_shard(text: str) -> Shard:
    """Return the shard that a user named.

    Raises:
        UsageError: it is not of the form I/N with I from 1 to N.
    """
    found = _FORM.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise UsageError(
            f"--shard {text[:60]!r}: write I/N with I from 1 to N, such as 2/8 for the second of "
            "eight parts"
        )
    return Shard(int(found[1]), int(found[2]))
