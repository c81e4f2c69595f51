"""Floor 3: what the code means. Rules ask `torchlint.semantic.module.Module` and nothing else."""
