"""Function and rule mode: two pieces of code in resident workers that take turns."""
