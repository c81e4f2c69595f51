"""The configuration. One table of keys, `keys`, from which all else about them comes."""
