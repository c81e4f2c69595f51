"""What becomes of an object: who reads, changes or keeps it afterwards; what a safe fix has to
prove."""
