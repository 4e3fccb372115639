"""What changed since results were made: code and data of tasks, and answers kept while neither changes."""
