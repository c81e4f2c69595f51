"""What runs in the user's interpreter, whoever asks: standard library and torch only, relative
imports only.

It is copied into the run's workspace as ``torchlint_inside.program.inside``, as the interpreter
that has torch need not have torchlint.
"""
