from __future__ import annotations

import hashlib
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from setup.errors import SetupFailed
from setup.jars import (
    BROKER_JARS,
    JARS,
    Jar,
    ca_bundle,
    check_jar,
    fetch,
    is_whole,
    ivy_settings,
    jars_step,
    proxy_flags,
    sha256_of,
    trust_flags,
    without_password,
)
from setup.java import wheel_runtime, write_wrapper
from setup.layout import Layout

SMALL = Jar("org.example", "small", "1.0", hashlib.sha256(b"small").hexdigest())


@pytest.fixture
def fetching(installed: Layout, layout: Layout) -> Layout:
    """An empty repository that has Spark's Ivy and a Java."""
    layout.site_packages.parent.mkdir(parents=True)
    layout.site_packages.symlink_to(installed.site_packages)
    write_wrapper(layout.java, wheel_runtime(installed))
    return layout


def publish(repository: Path, jar: Jar, content: bytes) -> None:
    """A Maven repository in a folder; real Ivy fetches from it."""
    folder = repository.joinpath(*jar.organisation.split("."), jar.name, jar.revision)
    folder.mkdir(parents=True)
    (folder / jar.file).write_bytes(content)
    (folder / f"{jar.name}-{jar.revision}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{jar.organisation}</groupId>"
        f"<artifactId>{jar.name}</artifactId><version>{jar.revision}</version></project>"
    )


def test_the_installed_jars_are_the_ones_that_were_checked(installed: Layout) -> None:
    assert all(is_whole(installed.jars / jar.file, jar) for jar in JARS)


def test_a_broker_is_one_version_of_kafka_and_not_part_of_set_up(layout: Layout) -> None:
    kafka = {jar.revision for jar in BROKER_JARS if jar.organisation == "org.apache.kafka"}
    assert len(kafka) == 1
    assert len({jar.file for jar in BROKER_JARS}) == len(BROKER_JARS)
    assert layout.broker_jars not in {path.parent for path in jars_step(layout, "").outputs}


@pytest.mark.slow
def test_jars_come_from_the_repository_that_is_named(
    fetching: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "maven", SMALL, b"small")
    monkeypatch.setenv("TIDEMARK_MAVEN", f"file://{tmp_path}/maven")
    fetch(fetching, str(fetching.java), [SMALL], fetching.jars)
    assert (fetching.jars / SMALL.file).read_bytes() == b"small"
    assert not (fetching.state / "ivy").exists()


@pytest.mark.slow
def test_a_jar_that_is_not_the_pinned_one_is_deleted_and_refused(
    fetching: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "maven", SMALL, b"something else")
    monkeypatch.setenv("TIDEMARK_MAVEN", f"file://{tmp_path}/maven")
    with pytest.raises(SetupFailed, match=SMALL.sha256):
        fetch(fetching, str(fetching.java), [SMALL], fetching.jars)
    assert list(fetching.jars.glob("*")) == []


@pytest.mark.slow
def test_a_repository_without_the_jar_is_named_with_what_to_do(
    fetching: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_MAVEN", f"file://{tmp_path}/maven")
    with pytest.raises(SetupFailed) as failed:
        fetch(fetching, str(fetching.java), [SMALL], fetching.jars)
    assert f"small-1.0.jar could not be fetched from file://{tmp_path}/maven" in str(failed.value)
    assert f"put the files into {fetching.jars} by hand" in str(failed.value)


def test_a_changed_jar_is_told_with_both_checksums(tmp_path: Path) -> None:
    path = tmp_path / SMALL.file
    path.write_bytes(b"changed")
    found = sha256_of(path)
    with pytest.raises(SetupFailed, match=f"its sha256 is {found} and must be {SMALL.sha256}"):
        check_jar(path, SMALL)
    assert not path.exists()


def test_a_jar_that_was_cut_short_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / SMALL.file).write_bytes(b"sma")
    assert not is_whole(tmp_path / SMALL.file, SMALL)
    assert is_whole(tmp_path / SMALL.file, replace(SMALL, sha256=sha256_of(tmp_path / SMALL.file)))


def test_without_a_named_repository_ivy_uses_its_own_central() -> None:
    assert "root" not in ivy_settings(None)
    assert "root='http" not in ivy_settings(None)
    assert 'root="https://mirror.example/m/"' in ivy_settings("https://mirror.example/m")


def test_proxies_are_told_to_the_jvm() -> None:
    proxies = {
        "http": "http://proxy.example:3128",
        "https": "http://user:secret@proxy.example:8080",
        "no": "localhost,.corp.example",
    }
    assert list(proxy_flags(proxies)) == [
        "-Dhttp.proxyHost=proxy.example",
        "-Dhttp.proxyPort=3128",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=8080",
        "-Dhttp.nonProxyHosts=localhost|*.corp.example",
    ]
    assert list(proxy_flags({})) == []


def test_the_ca_list_is_the_one_that_the_other_clients_are_told(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.touch()
    assert ca_bundle({"SSL_CERT_FILE": str(pem)}) == pem
    assert ca_bundle({"SSL_CERT_FILE": str(tmp_path / "gone")}) != tmp_path / "gone"


@pytest.mark.slow
def test_a_trust_store_made_of_a_pem_file_is_one_that_java_reads(
    installed: Layout, tmp_path: Path
) -> None:
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)[:3]
    if not certificates:
        pytest.skip("this machine has no CA list")
    pem = tmp_path / "ca.pem"
    pem.write_text("".join(map(ssl.DER_cert_to_PEM_cert, certificates)))
    trust_flags(installed, pem, tmp_path / "trust.p12")
    keytool = wheel_runtime(installed) / "bin" / "keytool"
    listed = subprocess.run(
        [keytool, "-list", "-keystore", tmp_path / "trust.p12", "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"contains {len(certificates)} entries" in listed.stdout


def test_a_password_in_a_url_is_not_shown() -> None:
    assert without_password("https://me:secret@mirror.example/m") == "https://mirror.example/m"
    assert without_password("Maven Central") == "Maven Central"
