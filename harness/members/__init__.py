"""What methods, workloads and attacks say about themselves, known without loading them.

facts.py        from a member to its facts: version, description, parameters
manifest.py     facts of ours from `manifest.json`, of plug-ins from the user's cache after their first load
own_sources.py  the state of our own code, which decides whether kept facts are still true
sizes.py        numbers of records
"""
