"""The interactive page: its content, its sections, its code."""
