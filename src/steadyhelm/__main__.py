"""`steadyhelm` and `python -m steadyhelm`: a hook goes its short way, everything else to the command line."""

import sys


def run() -> None:
    """Run what was asked for."""
    from steadyhelm.hooks import client  # noqa: PLC0415 - loads nothing else

    arguments = sys.argv[1:]
    if client.wants(arguments):
        client.main(arguments[1:])
        return
    # An agent waits for a hook: whatever a person may type is loaded only for a person.
    from steadyhelm.cli.main import run as command_line  # noqa: PLC0415 - the same

    command_line()


if __name__ == "__main__":
    run()
