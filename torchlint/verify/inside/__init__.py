"""What runs in the user's interpreter: standard library and torch only, relative imports only.

This package is copied into the run's workspace under the name ``torchlint_inside``, as the
interpreter that has torch need not have torchlint.
"""
