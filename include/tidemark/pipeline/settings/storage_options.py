"""One set of storage options for delta-rs, the file interface and Spark.

delta-rs and obstore take the options as they are; Spark reads the same stores through Hadoop,
with names of its own, which `spark_options` gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from tidemark.pipeline.problems import nearest
from tidemark.pipeline.source_files import is_uri

# How long a store may take for a request, with all that its client tries again.
STORE_SECONDS = 30
SCHEMES = ("file", "s3", "s3a", "gs", "abfs", "abfss")

_S3A = "spark.hadoop.fs.s3a."
_AZURE_KEY = "spark.hadoop.fs.azure.account.key.{account}.dfs.core.windows.net"
_CREDENTIALS = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"


def _endpoint(value: str) -> dict[str, str]:
    plain = str(value.startswith("https:")).lower()
    return {_S3A + "endpoint": value, _S3A + "connection.ssl.enabled": plain}


def _path_style(virtual: str) -> dict[str, str]:
    return {_S3A + "path.style.access": "false" if virtual.lower() == "true" else "true"}


_TRANSLATIONS: dict[str, Callable[[str], dict[str, str]]] = {
    "AWS_ENDPOINT_URL": _endpoint,
    "AWS_REGION": lambda value: {_S3A + "endpoint.region": value},
    # Spark decides by the endpoint's scheme; delta-rs and obstore want this said.
    "AWS_ALLOW_HTTP": lambda value: {},
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": _path_style,
    "AWS_ACCESS_KEY_ID": lambda value: {_S3A + "access.key": value},
    "AWS_SECRET_ACCESS_KEY": lambda value: {_S3A + "secret.key": value},
    "AWS_SESSION_TOKEN": lambda value: {_S3A + "session.token": value},
    "AZURE_STORAGE_ACCOUNT_NAME": lambda value: {},
    "AZURE_STORAGE_ACCOUNT_KEY": lambda value: {},
}
KNOWN = tuple(_TRANSLATIONS)
# Everything else is shown as ***: an option is a secret unless known not to be one.
SHOWN = (
    *("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ALLOW_HTTP", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
    "AZURE_STORAGE_ACCOUNT_NAME",
)


def check_storage_options(options: Mapping[str, str]) -> None:
    """ValueError when an option has no meaning for one of the three readers."""
    for name in options:
        if name not in KNOWN:
            near = nearest(name, KNOWN)
            hint = f" (nearest: `{near}`)" if near else ""
            raise ValueError(
                f"`{name}` has no translation for Spark{hint}; allowed: {', '.join(KNOWN)}"
            )
    if "@" in options.get("AWS_ENDPOINT_URL", ""):
        raise ValueError(
            "`AWS_ENDPOINT_URL` has a user or password in it, which would be shown; give them as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    for one, other in _PAIRS:
        if one in options and other not in options:
            raise ValueError(f"`{one}` needs `{other}` beside it")


_PAIRS = (
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
    ("AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"),
    ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"),
)


def delta_options(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options for delta-rs, with the time limit; obstore's clients have it too
    (`storage.files`)."""
    # What is silent is asked once; a 503 or a broken connection is tried again that long.
    limits = {"timeout": f"{STORE_SECONDS}s", "retry_timeout": f"{STORE_SECONDS - 1}s"}
    return {**options, **limits}


def spark_options(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options as settings of Spark; what they hold is as secret as they are."""
    settings: dict[str, str] = {}
    if "AWS_ENDPOINT_URL" in options:
        settings |= _path_style("false")
    for name, value in options.items():
        settings |= _TRANSLATIONS[name](value)
    if "AWS_ACCESS_KEY_ID" in options:
        kind = "Temporary" if "AWS_SESSION_TOKEN" in options else "Simple"
        settings[_S3A + "aws.credentials.provider"] = _CREDENTIALS.format(kind)
    if key := options.get("AZURE_STORAGE_ACCOUNT_KEY"):
        settings[_AZURE_KEY.format(account=options["AZURE_STORAGE_ACCOUNT_NAME"])] = key
    return settings


def spark_uri(place: str) -> str:
    """The place as Spark names it: Hadoop's S3 store is `s3a`, that of delta-rs is `s3`."""
    return re.sub(r"^s3://", "s3a://", place)


def is_local(place: str) -> bool:
    """Is the place in this machine's file system?"""
    return not is_uri(place) or urlsplit(place).scheme.lower() == "file"


def local_path(place: str) -> str:
    """The path of a local place, from a path or a `file:` URI. That has neither query nor fragment:
    `?` and `#` are signs of names there, as for Hadoop."""
    return unquote(re.sub("^[^:]*:(//[^/]*)?", "", place)) if is_uri(place) else place
