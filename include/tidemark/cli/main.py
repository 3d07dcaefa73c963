"""The commands, and how an error of ours ends one of them.

Exit codes are those of the job: 0 success; 1 failed, and a retry will not help; 75 failed, and
a retry can help. 2 is a wrong command line; what stops the command by a signal ends it with 128 and
its number, Ctrl-C with 130. `checkpoint doctor` and `state show`
have a code for each verdict, from 10 on, and `status` one for each state of a pipeline, from 20 on.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer

from tidemark.cli.accept import accept
from tidemark.cli.audit import audit
from tidemark.cli.backfill import backfill
from tidemark.cli.checkpoint.commands import checkpoint
from tidemark.cli.doctor import doctor
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.help import Group
from tidemark.cli.lease import lease
from tidemark.cli.ledger import ledger
from tidemark.cli.maintain import maintain
from tidemark.cli.migrate import migrate
from tidemark.cli.new.commands import new
from tidemark.cli.publish import publish
from tidemark.cli.rewind import rewind
from tidemark.cli.run import run
from tidemark.cli.state.commands import state
from tidemark.cli.status import status
from tidemark.cli.stopped import Stopped, stopped_by_signals
from tidemark.cli.trial.commands import try_pipeline
from tidemark.cli.validate import validate
from tidemark.errors import FAILED, TidemarkError
from tidemark.printed import printing_text
from tidemark.storage.delta.damage import damage_of
from tidemark.version import told_version

_STATE = "What was committed stays, and is not done again."


class _Commands(Group):
    """The commands. An error of ours is a message; one that nobody foresaw is a traceback."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        with printing_text(), stopped_by_signals():
            try:
                return super().main(*arguments, **options)
            except Stopped as stopped:
                print(f"\nStopped. {_STATE}", file=sys.stderr)
                sys.exit(stopped.exit_code)
            except Exception:  # noqa: BLE001  told here, for its message may hold anything
                traceback.print_exc()
                sys.exit(FAILED)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            told = error if isinstance(error, TidemarkError) else damage_of(error)
            if told is None:
                raise
            print(f"{type(told).__name__}: {told}", file=sys.stderr)
            raise typer.Exit(failure_exit_code(told)) from None


app = typer.Typer(
    name="tidemark",
    cls=_Commands,
    help="Streaming on a schedule, with every row accounted for.",
    no_args_is_help=True,
    add_completion=False,
    # Plain help: paragraphs are filled, no frame is cut, and nothing of it is styled.
    rich_markup_mode=None,
    # Python's own traceback: it can be copied, and shows no variable that may hold a secret.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(new)
app.command("try")(try_pipeline)
app.command()(validate)
app.command()(doctor)
app.command()(run)
app.command()(publish)
app.command()(accept)
app.command()(migrate)
app.command()(rewind)
app.command()(audit)
app.command()(backfill)
app.command()(status)
app.command()(maintain)
app.add_typer(checkpoint, name="checkpoint")
app.add_typer(lease, name="lease")
app.add_typer(ledger, name="ledger")
app.add_typer(state, name="state")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tidemark {told_version()}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    pass
