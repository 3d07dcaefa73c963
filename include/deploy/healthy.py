"""Is a service healthy? `python -m deploy.healthy URL [NAME.NAME=VALUE]`; exits with 0 or 1.

The URL has to answer, and where a value is asked for, its JSON has to have it there. Standard
library only: it runs every few seconds.
"""

from __future__ import annotations

import json
import sys
from urllib.request import ProxyHandler, build_opener


def main(url: str, wanted: str = "") -> int:
    try:
        # No proxy is asked for an address among the containers.
        with build_opener(ProxyHandler({})).open(url, timeout=5) as answer:
            text = answer.read()
    except OSError as error:
        print(f"{url}: {error}")
        return 1
    names, _, value = wanted.partition("=")
    found = value_at(text, names) if wanted else value
    print(f"{url}: {names} {found}")
    return 0 if found == value else 1


def value_at(text: bytes, names: str) -> object:
    """What stands at these names in JSON objects; None where nothing does."""
    found = json.loads(text)
    for name in names.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
