"""What all reports are made of: words and numbers, lines of a terminal, JSON, HTML pages and their drawings.

Shared by the reports of `check`, of `verify` and of profiles; nothing here knows what a finding or a measurement is.
"""
