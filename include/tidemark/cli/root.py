"""A command of ours as a whole: how an error of ours ends it, and what a signal does to it."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.help import Group
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
            known = error if isinstance(error, TidemarkError) else damage_of(error)
            if known is None:
                raise
            print(f"{type(known).__name__}: {known}", file=sys.stderr)
            raise typer.Exit(failure_exit_code(known)) from None


def root_app(name: str, purpose: str) -> typer.Typer:
    """A command of its own, which tells its version with --version."""
    app = typer.Typer(
        name=name,
        cls=_Commands,
        help=purpose,
        no_args_is_help=True,
        add_completion=False,
        # Plain help: paragraphs are filled, no frame is cut, and nothing of it is styled.
        rich_markup_mode=None,
        # Python's own traceback: it can be copied, and shows no variable that may hold a secret.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _print_version(ctx: typer.Context, asked: bool) -> None:
    if asked:
        print(f"{ctx.command.name} {told_version()}")
        raise typer.Exit


def _options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    pass


class Stopped(BaseException):
    """A signal ends the command. Like `SystemExit`, it is none of the errors that are handled."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Make SIGINT, SIGTERM and SIGHUP raise Stopped in this block, so that `finally` is heard:
    leases are given back, jobs are ended, temporary folders go. One that whoever started the
    command has ignored (nohup, `&`) stays so."""

    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # What a library kept from going on is told again, maybe as another signal.
        signals.append(number)
        raise Stopped(signals[0])

    possible = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in possible}
    heard = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
