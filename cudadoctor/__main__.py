"""`python -m cudadoctor`."""

from cudadoctor.cli import main

main()
