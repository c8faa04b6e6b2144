"""The requests and answers of `/api/v1`, one module a page.

Units, everywhere: a time is seconds since 1970 (UTC), a duration is seconds (`_s`) unless it ends in `_ms`,
money is US dollars, a share is 0 to 1, a score is 0 to 1, a step is a place in its run counted from 1. Agents
and runs are addressed by their `key`, an integer that is never used again. `None` is "not known"; it is never
0. All text from agents (names, goals, payloads, messages) is hostile: show it as text, never as markup.
"""
