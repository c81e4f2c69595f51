"""TL113: what else a function has on the host already, and fixes of copies there."""
