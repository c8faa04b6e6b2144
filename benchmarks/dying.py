"""Child process: records events until it is killed, saying after each how many were answered.

Usage: python -m benchmarks.dying MODE DATABASE
"""

import os
import struct
import sys

from benchmarks.workload import RUN_LENGTH, recorder, tool_event

from steadyhelm import DriftMonitor

ANSWERED = struct.Struct("<I")


def main() -> None:
    """Record without end."""
    mode, database = sys.argv[1:3]
    monitor = DriftMonitor("bench", db_path=database, durability=mode)
    record = recorder(monitor)
    answered = 0
    while True:
        if answered % RUN_LENGTH == 0:
            if answered:
                monitor.end_run()
            monitor.start_run()
        record(tool_event(answered))
        answered += 1
        os.write(1, ANSWERED.pack(answered))


if __name__ == "__main__":
    main()
