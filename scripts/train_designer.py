"""Train an adapter of the designer on the design bank, and measure it on parents kept out.

python scripts/train_designer.py --out out/designer --minutes 8 --device cuda
"""

from __future__ import annotations

import sys

from se_rl.core.designer_training.command import main

if __name__ == "__main__":
    sys.exit(main())
