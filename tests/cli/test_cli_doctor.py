"""The doctor: what it finds on this machine and on worse ones, and that it always ends."""

import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.cli import doctor_checks
from pregao.cli.doctor import FindingLevel, findings_of, problem, warning, well
from pregao.errors import NetworkError

SUBJECTS = [
    "python", "packages", "java", "memory", "working folder", "temporary folder", "kernels",
    "multicast", "receive buffers", "ports",
]  # fmt: skip
GIGABYTE = 1 << 30


def checked(monkeypatch, *findings):
    """Make the doctor find this, regardless of the machine."""
    from pregao.cli import doctor

    monkeypatch.setattr(doctor, "_checks", lambda: [("check", lambda: findings)])


def test_the_machine_is_inspected_and_left_unchanged(pregao, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = pregao("doctor", "--json")
    found = {each["subject"]: each for each in json.loads(result.out)}
    assert set(SUBJECTS) <= set(found)
    # Whatever else is not well on a machine that runs tests: these are needed by other tests.
    for subject in ("python", "packages", "kernels", "multicast", "temporary folder"):
        assert found[subject]["health"] != "problem", found[subject]
    assert all(each["remedy"] for each in found.values() if each["health"] != "ok")
    bad = any(each["health"] == "problem" for each in found.values())
    assert (result.code, result.err) == (int(bad), "")
    assert list(tmp_path.iterdir()) == []


def test_a_table_and_remedies(pregao, monkeypatch):
    checked(monkeypatch, well("java", "Java 17"), warning("ports", "taken", "Stop what is there."))
    result = pregao("doctor")
    assert result.code == 0
    assert "ports: Stop what is there." in result.out
    assert result.out.endswith("1 warning; all other checks passed.\n")
    assert pregao("doctor", "--strict").code == 1


def test_a_problem_ends_with_1(pregao, monkeypatch):
    checked(monkeypatch, problem("multicast", "none", "Switch it on."), well("java", "Java 17"))
    result = pregao("doctor")
    assert (result.code, "1 problem; all other checks passed." in result.out) == (1, True)
    checked(monkeypatch, well("java", "Java 17"))
    assert pregao("doctor", "--strict").out.endswith("All checks passed.\n")


def test_a_check_that_fails_or_never_ends_is_a_finding():
    never = threading.Event()

    def fails():
        yield well("half", "done")
        raise NetworkError("The network is down.")

    checks = [("slow", never.wait), ("half", fails), ("last", lambda: [well("last", "there")])]
    slow, half, failed, last = findings_of(checks, patience_s=0.05)
    never.set()
    assert (slow.subject, slow.health) == ("slow", FindingLevel.PROBLEM)
    assert "did not finish within 0.05 s" in slow.found
    assert (half.health, failed.found) == (FindingLevel.OK, "The network is down.")
    assert last == well("last", "there")


def test_where_there_is_no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (found,) = doctor_checks.check_java()
    assert found.health is FindingLevel.WARNING
    assert found.found.startswith("Spark needs Java 17")
    assert "--engine local" in found.remedy


@pytest.mark.parametrize(
    ("total", "available", "health"),
    [
        (16 * GIGABYTE, 8 * GIGABYTE, FindingLevel.OK),
        (16 * GIGABYTE, None, FindingLevel.OK),
        (16 * GIGABYTE, GIGABYTE, FindingLevel.WARNING),
        (GIGABYTE, 16 * GIGABYTE, FindingLevel.WARNING),  # a container's limit
        (16 * GIGABYTE, GIGABYTE // 4, FindingLevel.PROBLEM),
    ],
)
def test_memory(total, available, health):
    assert doctor_checks.judged_memory(total, available).health is health


def test_folders(tmp_path, monkeypatch):
    missing = doctor_checks.check_folder("working folder", tmp_path / "none")
    assert (missing.health, "No such file" in missing.found) == (FindingLevel.WARNING, True)
    assert "TMPDIR" in doctor_checks.check_folder("temporary folder", tmp_path / "none").remedy
    for free, health in ((0, "problem"), (2 * GIGABYTE, "warning"), (99 * GIGABYTE, "ok")):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(doctor_checks.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert doctor_checks.check_folder("working folder", tmp_path).health == health
    assert list(tmp_path.iterdir()) == []


def test_where_compiled_code_cannot_be_kept(tmp_path):
    for folder in (None, str(tmp_path / "none")):
        found = doctor_checks.judged_cache(folder)
        assert (found.health, "PREGAO_CACHE_DIR" in found.remedy) == (FindingLevel.WARNING, True)


def test_folders_of_compiled_code_that_others_can_write_are_named(tmp_path):
    (tmp_path / "kernels" / "pregao_cli").mkdir(parents=True)
    reason = "/tmp/pregao-7 belongs to user 8"
    for folder in (None, str(tmp_path / "kernels" / "pregao_cli")):
        found = doctor_checks.judged_cache(folder, [reason])
        assert (found.health, reason in found.found) == (FindingLevel.WARNING, True)
        assert "chmod go-w" in found.remedy
    kept = doctor_checks.judged_cache(str(tmp_path / "kernels" / "pregao_cli"))
    assert (kept.health, kept.found) == (FindingLevel.OK, f"cached in {tmp_path}")


def test_where_multicast_does_not_come_through(monkeypatch):
    monkeypatch.setattr(doctor_checks, "_DATAGRAM_S", 0.01)
    monkeypatch.setattr("pregao.net.sender.Sender.send", lambda *_: None)
    (silent,) = doctor_checks.check_multicast()
    assert (silent.health, "was not received" in silent.found) == (FindingLevel.PROBLEM, True)

    def refused(*_):
        raise NetworkError("Nothing can be sent.")

    monkeypatch.setattr("pregao.net.sender.Sender.send", refused)
    (finding,) = doctor_checks.check_multicast()
    assert (finding.health, "Nothing can be sent" in finding.found) == (FindingLevel.PROBLEM, True)


def test_small_buffers():
    assert doctor_checks.judged_buffer(1000, 1000).health is FindingLevel.OK
    found = doctor_checks.judged_buffer(33_554_432, 212_992)
    assert found.health is FindingLevel.WARNING
    assert "sysctl -w net.core.rmem_max=33554432" in found.remedy


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()
        found = doctor_checks.judged_ports([taken])
        assert (found.health, str(taken[1]) in found.found) == (FindingLevel.WARNING, True)
    assert doctor_checks.judged_ports([taken]).health is FindingLevel.OK


def test_requirements_are_read():
    read = doctor_checks.parse_requirement
    made = read("pyspark[connect]<4.4,>=4.2; extra == 'connect'")
    assert (made.name, made.with_extras, made.extra) == ("pyspark", ("connect",), "connect")
    assert [made.allows(each) for each in ("4.1.9", "4.2", "4.2.0rc1", "4.3.7", "4.4.0")] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert read("markdown-it-py (>=2.2.0)").bounds == ((">=", (2, 2, 0)),)
    assert read('tomli; python_version < "3.11"') is None
    assert read("xxhash").allows("0")


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_a_version_is_at_least_itself(parts):
    text = ".".join(map(str, parts))
    assert doctor_checks.parse_requirement(f"some>={text}").allows(text)
    assert not doctor_checks.parse_requirement(f"some<{text}").allows(text)


def test_packages_and_extras_that_are_missing(monkeypatch):
    made = [
        doctor_checks.parse_requirement(each)
        for each in ("numpy>=9999", "no-such-package>=1", "no-such-other; extra == 'ui'")
    ]
    monkeypatch.setattr(doctor_checks, "requirements", lambda _: made)
    packages, extra = doctor_checks.check_packages()
    assert packages.health is FindingLevel.PROBLEM
    assert "no-such-package is missing" in packages.found
    assert packages.remedy == "Run `pip install 'numpy>=9999' 'no-such-package>=1'`."
    assert (extra.subject, extra.health) == ("extra ui", FindingLevel.WARNING)
    assert "pip install 'pregao[ui]'" in extra.remedy


def test_an_extra_of_a_package_counts(monkeypatch):
    requirements = {
        "pregao": ["pytest[extra]; extra == 'connect'"],
        "pytest": ["no-such-package; extra == 'extra'", "no-such-other; extra == 'other'"],
    }
    monkeypatch.setattr(doctor_checks.metadata, "requires", requirements.get)
    _, extra = doctor_checks.check_packages()
    assert extra.found == "no-such-package is missing"


def test_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(doctor_checks, "_PACKAGE", "no-such-package")
    (found,) = doctor_checks.check_packages()
    assert (found.health, "not installed" in found.found) == (FindingLevel.WARNING, True)
    (python,) = doctor_checks.check_python()
    assert python.health is FindingLevel.OK


def test_a_java_that_does_not_run(monkeypatch, tmp_path):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (found,) = doctor_checks.check_java()
    assert "does not run" in found.found
