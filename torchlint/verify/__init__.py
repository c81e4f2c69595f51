"""Before against after. The parent process uses the standard library only; torch runs in
child processes.

`model` holds the values, `fixes` and `variants` what is compared, `statistics` what a difference
means; ``session`` the engine that talks to processes, times them in turns and judges results,
``script`` whole programs, ``paired`` functions and rules, ``inside`` what the user's interpreter
runs, ``output`` the reports. Where programs run is `torchlint.program`'s.
"""
