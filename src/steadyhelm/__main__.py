"""`steadyhelm` and `python -m steadyhelm`: run a hook with nothing else loaded, or the command line."""

import sys


def run() -> None:
    """Run the hook client or the command line."""
    from steadyhelm.hooks import client  # noqa: PLC0415 - loads nothing else

    arguments = sys.argv[1:]
    if client.is_hook_event(arguments):
        client.main(arguments[1:])
        return
    # Other commands may run a program of the user's, whose options and processes are its own.
    if arguments[:1] in (["scan"], ["lab"]) and any(it.startswith("--jobs") for it in arguments):
        from steadyhelm import process_server  # noqa: PLC0415 - the same

        process_server.start_for(arguments)
    # An agent waits for a hook: the command line is loaded only for a person.
    from steadyhelm.cli.main import run as command_line  # noqa: PLC0415 - the same

    command_line()


if __name__ == "__main__":
    run()
