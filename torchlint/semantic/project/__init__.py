"""What a file's imports from its own project give: classes and their bases, helpers, base classes
that call back."""
