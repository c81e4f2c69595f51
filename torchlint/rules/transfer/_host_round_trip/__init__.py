"""TL104: which values leave the device and go back in one function."""
