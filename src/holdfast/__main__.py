"""`python -m holdfast`: the command line, without the script being on the path."""

from holdfast.cli.main import run

run()
