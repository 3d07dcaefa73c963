"""Copy a folder's files to `landing` below the settings' root: `python -m deploy.land FOLDER`.

A file whose name is there already is left out: what has landed does not change. Names that begin
with `.` or `_` are left out too, as runs leave them out, so that files can be written under one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import obstore
from obstore.store import ObjectStore, from_url

from tidemark.pipeline.settings.settings import Settings, load_settings


def main(folder: Path) -> None:
    store = landing_of(load_settings())
    there = {meta["path"] for batch in obstore.list(store) for meta in batch}
    names = sorted(name for name in names_in(folder) if name not in there)
    for name in names:
        # In parts, so that a large file needs little memory; it is seen when it is whole.
        obstore.put(store, name, folder / name)
        print(f"landed {name}")
    print(f"{len(names)} landed, {len(there)} there already")


def names_in(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(name) for name in found if not any(p.startswith((".", "_")) for p in name.parts)]


def landing_of(settings: Settings) -> ObjectStore:
    options: Any = dict(settings.storage_options)
    # obstore takes this one as an option of its client only.
    plain_http = options.pop("AWS_ALLOW_HTTP", "false").lower() == "true"
    place = f"{settings.root}/landing"
    return from_url(place, config=options, client_options={"allow_http": plain_http})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
