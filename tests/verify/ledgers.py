"""The ledger with torchlint's own table of operations, as `verify` hands it over."""

from __future__ import annotations

from functools import partial

from torchlint import api
from torchlint.program.inside import ledger

Ledger = partial(ledger.Ledger, rows=api.ledger_rows())
virtual_cuda = partial(ledger.virtual_cuda, rows=api.ledger_rows())
