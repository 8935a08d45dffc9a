"""`python -m scenarios.engine`: the practice engine as a process of its own."""

from scenarios.engine.command import engine

if __name__ == "__main__":
    engine(prog_name="engine")
