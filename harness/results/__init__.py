"""Results in the database: collected, matched with published numbers, queried, exported."""
