"""TL1xx: transfers between host and device, and the waits they cause."""
