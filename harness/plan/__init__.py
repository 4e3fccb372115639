"""From a sweep file to tasks: names looked up, parameters resolved, noise solved for, cost estimated."""
