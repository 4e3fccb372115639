"""What methods add noise with, and the events by which a ledger names it."""
