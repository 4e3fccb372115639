"""The published tables, as data, and their lines as cells of ours."""
