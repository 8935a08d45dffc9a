"""The `tokenswarm` command: `probe` and `engine` are the load side's, the rest is the analysis'.

Commands are imported when they run, so that each starts quickly; running a load is Locust's own command.
"""

import importlib
import sys

import click
from gevent import monkey

# command -> (module, click command in it)
COMMANDS = {
    "probe": ("scenarios.probe", "probe"),
    "engine": ("scenarios.engine.command", "engine"),
    "recover": ("scenarios.recording.recover", "recover"),
    "report": ("analysis.cli", "report"),
    "compare": ("analysis.cli", "compare"),
    "check": ("analysis.cli", "check"),
    "explain": ("analysis.cli", "explain"),
    "export": ("analysis.cli", "export_run"),
    "import": ("analysis.cli", "import_run"),
}


class LazyCommands(click.Group):
    """A group whose commands are imported only when asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Names in the order of the table above."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        if cmd_name == "probe":
            monkey.patch_all()
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tokenswarm")
def main() -> None:
    """Load testing for LLM serving engines. A load is run with `locust`; this command does what is around it."""


if __name__ == "__main__":
    sys.exit(main())
