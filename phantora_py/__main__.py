"""`python -m phantora_py` is `phantora`."""

import sys

from phantora_py.cli import main

sys.exit(main())
