"""The accountants: each prices the events of a ledger in its own way."""
