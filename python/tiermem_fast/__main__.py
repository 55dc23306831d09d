"""``python -m tiermem_fast`` is the command ``tiermem``."""

from tiermem_fast.cli import main

if __name__ == "__main__":
    main()
