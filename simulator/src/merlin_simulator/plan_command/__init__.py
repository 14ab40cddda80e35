"""`python -m simulator plan`: reads PLAN.toml, simulates each candidate, and judges the outcomes.

run.py is the line: settings (plan_toml.py), traffic.py, candidates.py, answers.py, then table.py,
picture.py and JSON. baseline.py is `--like`: a replay simulated once more.
"""
