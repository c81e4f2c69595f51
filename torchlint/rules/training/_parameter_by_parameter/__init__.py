"""TL510: what a loop does to each parameter, and how many there are."""
