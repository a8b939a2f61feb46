"""`python -m se_rl` is `se-rl`."""

import sys

from se_rl.main import main

if __name__ == "__main__":
    sys.exit(main())
