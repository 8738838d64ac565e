"""``python -m thetarbm_cli``."""

from thetarbm_cli.cli import main

if __name__ == "__main__":
    main()
