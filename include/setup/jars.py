"""The jars of Delta and S3A (`jars.txt`), fetched once and checked against their sha256.

Those of a broker (`broker_jars.txt`) come in the same way, where somebody starts one.

Fetched by Ivy, which comes with pyspark, so by the client that Spark itself uses, from the
repository that Ivy calls central or from the one in TIDEMARK_MAVEN. Plain `--packages` would
bring more, some of which must not shadow those of pyspark.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from setup.errors import SetupFailed, refuse_full_disk
from setup.layout import Layout
from setup.step import Step, key_of, last_lines, run_logged


@dataclass(frozen=True)
class Jar:
    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def listed_jars(text: str) -> tuple[Jar, ...]:
    """The jars of a list: organisation, name, revision and sha256 a line; `#` begins a comment."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return tuple(Jar(*line) for line in lines if line)


def list_beside(name: str) -> tuple[Jar, ...]:
    return listed_jars(Path(__file__).with_name(name).read_text(encoding="utf-8"))


JARS = list_beside("jars.txt")
BROKER_JARS = list_beside("broker_jars.txt")

CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CERTIFICATE_TROUBLE = ("PKIX", "SSLHandshakeException", "certificate")


def jars_step(layout: Layout, java_home: str) -> Step:
    doing = "fetching the jars of Delta and S3A"
    return fetching_step("jars", doing, layout, java_home, JARS, layout.jars)


def broker_jars_step(layout: Layout, java_home: str) -> Step:
    doing = "fetching the jars of a Kafka broker"
    return fetching_step("broker_jars", doing, layout, java_home, BROKER_JARS, layout.broker_jars)


def fetching_step(
    name: str, doing: str, layout: Layout, java_home: str, jars: tuple[Jar, ...], folder: Path
) -> Step:
    def act() -> dict[str, str]:
        missing = [jar for jar in jars if not is_whole(folder / jar.file, jar)]
        if missing:
            fetch(layout, java_home, missing, folder)
        return {"note": "fetched and checked" if missing else "already there, checked"}

    return Step(
        name=name,
        doing=doing,
        key=key_of(folder, *jars),
        outputs=tuple(folder / jar.file for jar in jars),
        act=act,
    )


def is_whole(path: Path, jar: Jar) -> bool:
    return path.exists() and sha256_of(path) == jar.sha256


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(layout: Layout, java_home: str, jars: list[Jar], folder: Path) -> None:
    """Fetch into a folder aside, check, then move each to its place in one step."""
    aside = layout.state / "ivy"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    retrieve(layout, java_home, aside, jars, folder)
    folder.mkdir(exist_ok=True)
    for jar in jars:
        check_jar(aside / jar.file, jar)
        Path(aside / jar.file).replace(folder / jar.file)
    shutil.rmtree(aside, ignore_errors=True)


def check_jar(path: Path, jar: Jar) -> None:
    found = sha256_of(path)
    if found != jar.sha256:
        path.unlink()
        raise SetupFailed(
            f"{jar.file} was fetched and is not the file that it should be: its sha256 is {found} "
            f"and must be {jar.sha256}; it has been deleted",
            "run the same command again; when it stays so, the repository or a proxy between "
            "serves something else: name another repository in TIDEMARK_MAVEN",
        )


def retrieve(layout: Layout, java_home: str, aside: Path, jars: list[Jar], folder: Path) -> None:
    """Run Ivy; a second time with the system's CA list when the JVM's own does not do.

    Java has its own list, so behind a proxy that signs anew it fails where pip and uv do not.
    """
    command = ivy_command(layout, java_home, aside, jars)
    output = run_logged([command[0], *command[1:]], layout.log)
    bundle = ca_bundle(os.environ)
    if output and bundle and any(word in output for word in CERTIFICATE_TROUBLE):
        trust = trust_flags(layout, bundle, aside / "trust.p12")
        output = run_logged([command[0], *trust, *command[1:]], layout.log)
    if output is None and all((aside / jar.file).exists() for jar in jars):
        return
    output = output or layout.log.read_text(encoding="utf-8", errors="replace")
    refuse_full_disk(output, str(aside))
    files = ", ".join(jar.file for jar in jars if not (aside / jar.file).exists()) or "Jars"
    where = os.environ.get("TIDEMARK_MAVEN", "Maven Central")
    raise SetupFailed(
        f"{files} could not be fetched from {without_password(where)}; Ivy's last lines (all in "
        f"{layout.log}):\n{last_lines(output)}\n",
        "check the network and HTTPS_PROXY, then run the same command again",
        "behind a company's mirror, set TIDEMARK_MAVEN to the root URL of its Maven repository",
        f"or put the files into {folder} by hand: they are used when their sha256 is right",
    )


def ivy_command(layout: Layout, java_home: str, aside: Path, jars: list[Jar]) -> list[str]:
    settings, wanted = aside / "ivysettings.xml", aside / "ivy.xml"
    settings.write_text(ivy_settings(os.environ.get("TIDEMARK_MAVEN")), encoding="utf-8")
    wanted.write_text(ivy_module(jars), encoding="utf-8")
    own = layout.spark_home / "jars"
    class_path = ":".join(str(p) for name in ("ivy-*", "commons-cli-*") for p in own.glob(name))
    return [f"{java_home}/bin/java", *proxy_flags(urllib.request.getproxies_environment()),
            "-cp", class_path, "org.apache.ivy.Main", "-warn",
            "-settings", str(settings), "-ivy", str(wanted), "-cache", str(aside / "cache"),
            "-retrieve", f"{aside}/[artifact]-[revision].[ext]"]  # fmt: skip


def ivy_settings(root: str | None) -> str:
    """Ivy knows where central is; `root` names another repository of the same layout."""
    other = f" root={quoteattr(root.rstrip('/') + '/')}" if root else ""
    return (
        "<ivysettings><settings defaultResolver='central'/><resolvers>"
        f"<ibiblio name='central' m2compatible='true'{other}/>"
        "</resolvers></ivysettings>"
    )


def ivy_module(jars: list[Jar]) -> str:
    wanted = "".join(
        f"<dependency org='{jar.organisation}' name='{jar.name}' rev='{jar.revision}'"
        " transitive='false' conf='default->master'/>"
        for jar in jars
    )
    return (
        "<ivy-module version='2.0'><info organisation='tidemark' module='jars'/>"
        "<configurations><conf name='default'/></configurations>"
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )


def proxy_flags(proxies: Mapping[str, str]) -> Iterator[str]:
    """The JVM's own way of saying what HTTP_PROXY, HTTPS_PROXY and NO_PROXY say."""
    for scheme in ("http", "https"):
        url = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if url.hostname:
            yield f"-D{scheme}.proxyHost={url.hostname}"
            yield f"-D{scheme}.proxyPort={url.port or 80}"
    direct = [name.strip() for name in proxies.get("no", "").split(",") if name.strip()]
    if direct:
        hosts = [f"*{name.lstrip('*')}" if name[0] in ".*" else name for name in direct]
        yield f"-Dhttp.nonProxyHosts={'|'.join(hosts)}"


def ca_bundle(env: Mapping[str, str]) -> Path | None:
    """The CA list that pip, requests, Python or curl would use on this machine."""
    named = [env[name] for name in CA_VARIABLES if env.get(name)]
    default = ssl.get_default_verify_paths().cafile
    for path in map(Path, [*named, *([default] if default else []), *CA_FILES]):
        if path.is_file():
            return path
    return None


def trust_flags(layout: Layout, bundle: Path, store: Path) -> list[str]:
    """A Java trust store made of a PEM file, by the `cryptography` of the lock."""
    script = Path(__file__).with_name("trust_store.py")
    output = run_logged([str(layout.python), str(script), str(bundle), str(store)], layout.log)
    if output is not None:
        raise SetupFailed(f"the CA list {bundle} could not be read:\n{last_lines(output)}\n",
                          "name a readable PEM file in SSL_CERT_FILE")  # fmt: skip
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=PKCS12",
            "-Djavax.net.ssl.trustStorePassword=changeit"]  # fmt: skip


def without_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
