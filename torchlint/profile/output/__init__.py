"""What `torchlint profile` found, for people and for programs."""
