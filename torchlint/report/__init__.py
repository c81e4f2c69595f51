"""Floor 2: findings turned into words, one module per output format. Needs only
`torchlint.base`."""
