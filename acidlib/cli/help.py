"""The help of commands: options in groups, in the order in which a person needs them, drawn by rich-click.

rich-click is loaded when help is printed, so that no other start of a command waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

OPTION_GROUPS: Mapping[str, Sequence[str]] = {
    "Tables and partitions": (
        *("--table", "--partition", "--exclude", "--idle", "--if-exists"),
        *("--state", "--limit", "--blockers"),
    ),
    "What to do, and how much": (
        *("--dry-run", "--order", "--max-partitions", "--max-bytes", "--time-budget", "--verify"),
        *("--rebalance", "--buckets"),
        *("--retention", "--trash", "--orphans", "--older-than", "--delete"),
        *("--fail-on", "--places", "--python-prefix", "--keep"),
    ),
    "Metastore and queue": ("--metastore-uri", "--metastore-db", "--queue-url", "--pool", "--set"),
    "Without a metastore": (
        *("--location", "--warehouse", "--all-committed", "--yes", "--write-ids", "--write-ids-file"),
        *("--hive-version", "--table-kind", "--columns", "--visibility-txn", "--nobody-reads"),
    ),
    "Output": ("--output", "--details", "--hive", "--report", "--metrics-file", "--log-file", "--log-format"),
    "Advanced": (
        "--lock-timeout",
        "--minor-as-major-bytes",
        "--release-held",
        "--force",
        "--debug",
        "--version",
        "--help",
    ),
}
"""The groups of options by title, with all options of all commands in the order of help."""
_FEW = 4
"""A command with at most so many options shows them in one group."""


@contextmanager
def shown_mistakes() -> Iterator[None]:
    """Have the message about a wrong command line on one line, with the secrets in it masked."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:  # its message is the help
        raise
    except click.ClickException as error:
        from acidlib.report.text import one_line

        error.message = one_line(error.message)  # type: ignore[misc]  # click has no other way
        raise


class HelpedCommand(click.Command):
    """A command whose help shows options by `OPTION_GROUPS`, and at the end its epilog as it is written.

    Its messages about a wrong command line are on one line and hold no secret.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line."""
        with shown_mistakes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with shown_mistakes():
            return super().invoke(ctx)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help, as wide as the terminal; in colours on a terminal alone."""
        from rich.padding import Padding
        from rich.text import Text
        from rich_click import RichHelpConfiguration, RichHelpFormatter

        config = RichHelpConfiguration(
            theme="default-slim",
            enable_theme_env_var=False,
            options_table_column_types=["opt_all_metavar", "help"],
            options_table_help_sections=["help", "required", "default", "envvar"],
            default_string="\\[default: {}]",
            envvar_string="\\[variable: {}]",
        )
        formatter = RichHelpFormatter(config=config)
        self.format_usage(ctx, formatter)
        formatter.write(Padding(Text(self.help or ""), (0, 0, 1, 2)))
        for panel in self.panels(ctx):
            formatter.write(panel.render(self, ctx, formatter))
        formatter.write(Text(self.epilog or ""), soft_wrap=True)
        return "\n".join(line.rstrip() for line in formatter.getvalue().rstrip().splitlines())

    def panels(self, ctx: click.Context) -> list[Any]:
        """Return the panels of rich-click for the options."""
        from rich_click import RichOptionPanel

        own = {name for option in self.get_params(ctx) if not getattr(option, "hidden", False) for name in option.opts}
        groups = {title: [name for name in names if name in own] for title, names in OPTION_GROUPS.items()}
        if sum(map(len, groups.values())) <= _FEW:
            groups = {"Options": [name for names in groups.values() for name in names]}
        return [RichOptionPanel(title, options=names) for title, names in groups.items() if names]
