"""`se-rl experiment` from a clone.

python scripts/run_experiment.py --dataset nasdaq100 --seeds 5
python scripts/run_experiment.py --dataset csi100 --seeds 3 --no-dek
python scripts/run_experiment.py --dataset nasdaq100 --seeds 3 --preset standard \\
    --arms full no-dek random best-of-n
"""

from __future__ import annotations

import sys

from se_rl.main import main

if __name__ == "__main__":
    sys.exit(main(["experiment", *sys.argv[1:]]))
