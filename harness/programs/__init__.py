"""Programs of the user's own that train, and their records: kept in the store, run in child processes.

    <store>/given/records-<hash>/     pool and test records, given once (given_records.py)
    <store>/given/<stem>-<hash>/      a script with what it imports from its folder, or a command (program.py)

Both are named by a hash of their content. `shelf.admit` makes those that a task names members of the families
of workloads and methods, for the process that performs the task; from there on they are like any others.
"""
