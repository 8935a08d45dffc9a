"""`python -m analysis report RUN`: the analysis without the load side."""

from analysis.cli import main_group

if __name__ == "__main__":
    main_group(prog_name="python -m analysis")
