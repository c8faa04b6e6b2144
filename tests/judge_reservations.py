"""Let several processes reserve questions of one day at once, and count what each was granted."""

import json
import subprocess
import sys

PROCESSES = 3
CALLS = 20
TOKENS = 1_000
TRIES = 30

_RESERVE = """
import json, sys, time
from steadyhelm.engine.judge_worker import DailyAccount
from steadyhelm.judging.usage import JudgeAmounts, JudgeLimits
from steadyhelm.stores import open_store

database, calls, tokens, tries = sys.argv[1], *map(int, sys.argv[2:])
store = open_store(database)
account = DailyAccount(JudgeLimits(calls=calls, tokens=tokens), store, time.time)
one = JudgeAmounts(1, tokens // calls, 0.0)
print("ready", flush=True)
sys.stdin.readline()
said = [account.reserve(one) for _ in range(tries)]
print(json.dumps([said.count(""), sorted(set(said) - {""})]))
store.close()
"""


def reserve_at_once(database):
    """Return how many questions each process could reserve, and what the others were refused for."""
    arguments = [str(database), str(CALLS), str(TOKENS), str(TRIES)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _RESERVE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for child in children:
        assert "ready\n" == child.stdout.readline(), child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    ended = [child.communicate() for child in children]
    assert [0] * PROCESSES == [child.returncode for child in children], [errors for _, errors in ended]
    return [json.loads(printed) for printed, _ in ended]
