"""What all reports are made of: words and numbers, terminal lines, JSON, HTML pages and drawings.

Shared by the reports of `check`, of `verify` and of profiles; nothing here knows what a finding or
a measurement is.
"""
