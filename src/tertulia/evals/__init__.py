"""Measures candidates (a model, an agent, an executor, a setting) by tasks with hidden checks, and compares results.

    Suite      a folder of tasks (`suite.py`, `task.py`, `task_files.py`)
    Candidate  who does the tasks, and under which settings (`candidate.py`)
    run        one task done by one candidate: a fresh copy of the repository, a session of its own, then the check,
               confined (`run.py`, `checking.py`, `check_program.py`)
    results    a file of JSON lines, appended to as runs end (`results.py`); `campaign.py` does what is missing in it
    summary    rates with intervals, and two results compared (`statistics.py`, `summary.py`, `comparison.py`)

Nothing here prints: the verb `tertulia eval` does.
"""
