"""How long a test waits for what has to come: so long that only what never comes is missed on a
busy machine.

Nothing is measured by it. What has to be fast is held by CPU time: ``@pytest.mark.cpu(seconds)``
for this process.
"""

PATIENCE = 600.0
"""Seconds by the clock."""
