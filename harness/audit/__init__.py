"""The leakage audit: what a given model leaks about the records that it was trained on.

scores_file.py     members and others from files, as arrays
given.py           what was given, checked: signals, labels, shadows, features
measurement.py     the attacks that such arrays allow, without torch
target_model.py    signals from a model, and the attacks that query it
door.py            `privbench.audit`: arrays or a model to a LeakageAudit
program_door.py     a training to its LeakageAudit: give it to a store, send it, read the result
program_result.py   what the tasks of such an audit found
wording.py         the sentences that a result states
leakage_audit.py   the result, as audit.json holds it
"""
