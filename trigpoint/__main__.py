"""`python -m trigpoint`."""

from trigpoint.cli import main

if __name__ == "__main__":
    main()
