"""Docker containers on this machine: one around every worker."""
