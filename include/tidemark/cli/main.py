"""The commands, and how an error of ours ends one of them.

Exit codes are those of the job: 0 success; 1 failed, and a retry will not help; 75 failed, and
a retry can help. 2 is a wrong command line; what stops the command by a signal ends it with 128 and
its number, Ctrl-C with 130. `checkpoint doctor` and `state show`
have a code for each verdict, from 10 on, and `status` one for each state of a pipeline, from 20 on.
"""

from __future__ import annotations

from tidemark.cli.accept import accept
from tidemark.cli.audit import audit
from tidemark.cli.backfill import backfill
from tidemark.cli.checkpoint.commands import checkpoint
from tidemark.cli.doctor import doctor
from tidemark.cli.erase import erase
from tidemark.cli.explain import explain
from tidemark.cli.lease import lease
from tidemark.cli.ledger import ledger
from tidemark.cli.maintain import maintain
from tidemark.cli.migrate import migrate
from tidemark.cli.new.commands import new
from tidemark.cli.ops import ops
from tidemark.cli.page import page
from tidemark.cli.publish import publish
from tidemark.cli.rejects import rejects
from tidemark.cli.remove import remove
from tidemark.cli.rename import rename
from tidemark.cli.retract import retract
from tidemark.cli.rewind import rewind
from tidemark.cli.root import root_app
from tidemark.cli.run import run
from tidemark.cli.state.commands import state
from tidemark.cli.status import status
from tidemark.cli.trial.commands import try_pipeline
from tidemark.cli.validate import validate

app = root_app("tidemark", "Streaming on a schedule, with every row accounted for.")
app.command()(new)
app.command("try")(try_pipeline)
app.command()(validate)
app.command()(doctor)
app.command()(run)
app.command()(publish)
app.command()(accept)
app.command()(migrate)
app.command()(rewind)
app.command()(retract)
app.command()(erase)
app.command()(audit)
app.command()(backfill)
app.command()(status)
app.command()(explain)
app.command()(ops)
app.command()(page)
app.command()(maintain)
app.command()(remove)
app.command()(rename)
app.add_typer(checkpoint, name="checkpoint")
app.add_typer(lease, name="lease")
app.add_typer(ledger, name="ledger")
app.add_typer(rejects, name="rejects")
app.add_typer(state, name="state")
