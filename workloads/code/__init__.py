"""Source code as data: which files a module uses, and what is code in them; nothing is imported."""
