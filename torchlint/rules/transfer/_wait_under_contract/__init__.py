"""TL115: which code is under a contract of no waits."""
