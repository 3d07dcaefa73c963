"""`python -m tidemark`: the command, where its script is not on the PATH."""

from tidemark.cli.start import main

if __name__ == "__main__":
    main()
