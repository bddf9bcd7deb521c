"""`python -m harness` is `ratchet`."""

from harness.cli import main

if __name__ == "__main__":
    main()
