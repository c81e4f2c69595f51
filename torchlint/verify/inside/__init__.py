"""What runs in the user's interpreter: standard library and torch only, relative imports only.

It is copied into the run's workspace as ``torchlint_inside.verify.inside``, as the interpreter that
has torch need not have torchlint; ``...program.inside`` lies where it does here.
"""
