"""Findings turned into words, one module per output format. Needs only
`torchlint.base`."""
