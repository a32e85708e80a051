"""`python -m cudadoctor`, and the program `cudadoctor`. Ctrl-C while Python still reads the modules ends without a traceback too."""

import sys

sys.dont_write_bytecode = True  # a check changes no file, not even the doctor's own; pip compiles at the installation

from cudadoctor import exit_codes  # noqa: E402 - every import of ours comes behind that line


def main() -> None:
    """The command line."""
    try:
        from cudadoctor import cli

        cli.main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(exit_codes.INTERRUPTED)


if __name__ == "__main__":
    main()
