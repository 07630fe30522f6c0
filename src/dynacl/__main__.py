"""`python -m dynacl`, the command line where the script is not on the path."""

from dynacl.cli import main

raise SystemExit(main())
