"""TL405: which lines are an attention written out."""
