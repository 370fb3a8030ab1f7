"""Configuration for all commands: which file is used, precedence, and errors in it."""

import json
import os

import pytest

from pregao.api.arguments import moment_ns
from pregao.cli.config import Configuration, configuration, read_configuration
from pregao.cli.option_values import feeds, moment
from pregao.errors import UsageError

TEN_IN_BRAZIL = 1_779_368_400_000_000_000  # 2026-05-21T13:00:00Z


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A home, and a working folder three folders below another one."""
    for name in ("PREGAO_LAKE", "PREGAO_TZ", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "work" / "deep" / "here"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pregao.toml").write_text(text)
    return folder / "pregao.toml"


def test_the_nearest_file_counts_and_the_users_is_the_last(elsewhere, tmp_path, monkeypatch):
    assert configuration() == Configuration()
    own = write(tmp_path / "home" / ".config" / "pregao", 'lake = "/lakes/home"')
    assert configuration() == Configuration(own, "/lakes/home")
    above = write(tmp_path / "work", 'lake = "b3"')
    assert configuration() == Configuration(above, str(tmp_path / "work" / "b3"))
    local = write(elsewhere, 'tz = "America/Sao_Paulo"')
    assert configuration() == Configuration(local, None, "America/Sao_Paulo")
    local.unlink()
    above.unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "set"))
    assert configuration() == Configuration()
    write(tmp_path / "set" / "pregao", 'lake = "s3://bucket/lake"')
    assert configuration().lake == "s3://bucket/lake"


@pytest.mark.parametrize(
    ("lake", "expected"),
    [
        ("b3", "FOLDER/b3"),
        ("../b3", "ABOVE/b3"),
        ("/data/b3", "/data/b3"),
        ("~/b3", "HOME/b3"),
        ("hdfs://name/b3", "hdfs://name/b3"),
    ],
)
def test_a_lakes_path_is_relative_to_the_folder_of_the_file(elsewhere, tmp_path, lake, expected):
    path = write(elsewhere, f"lake = '{lake}'")
    for word, folder in (("FOLDER", elsewhere), ("ABOVE", elsewhere.parent)):
        expected = expected.replace(word, str(folder))
    assert read_configuration(path).lake == expected.replace("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('lakes = "a"', 1, "unknown setting lakes. Did you mean lake?"),
        ('# a\n\n  colour = "red"', 3, "unknown setting colour. Allowed are lake and tz."),
        ('lake = "a"\n[zones]\na = 1', 2, "unknown setting zones"),
        ('lake = "a"\ntz = 3', 2, "tz must be a non-empty string, was 3."),
        ('tz = ""', 1, "tz must be a non-empty string, was ''."),
        ('\ntz = "Sao Paulo"', 2, "was 'Sao Paulo'. Did you mean America/Sao_Paulo?"),
        ('tz = "../../etc/passwd"', 1, "tz must be a time zone such as America/Sao_Paulo"),
        ('tz = "UTC"\nlake = "a', 2, "is not TOML"),
        ('tz = \'UTC\'\nlake = """a\nb', 3, "is not TOML"),
        ("lake", 1, "is not TOML"),
    ],
)
def test_an_error_names_the_file_and_the_line(elsewhere, text, line, words):
    path = write(elsewhere, text)
    with pytest.raises(UsageError) as error_info:
        read_configuration(path)
    sentence = str(error_info.value)
    assert sentence.startswith(f"{path}, line {line}: ")
    assert words in sentence
    assert sentence[-1] in ".?"


def test_bytes_that_are_no_text(elsewhere):
    path = elsewhere / "pregao.toml"
    path.write_bytes(b'tz = "UTC"\nlake = "\xff"')
    with pytest.raises(UsageError, match="line 2: is not UTF-8"):
        read_configuration(path)


def test_a_file_that_may_not_be_read(elsewhere, monkeypatch):
    path = write(elsewhere, "")

    def refused(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pregao.cli.config.read_file", refused)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        read_configuration(path)


@pytest.mark.parametrize("command", [("lake", "tables"), ("query", "SELECT 1"), ("audit",)])
def test_the_option_wins_over_the_environment_and_that_over_the_file(
    pregao, elsewhere, monkeypatch, command
):
    def lake_in_error(*more):
        result = pregao(*command, *more)
        assert result.code == 2
        return result.err.split()[1]

    assert pregao(*command).err.startswith("pregao: No lake given: use --lake DIR")
    write(elsewhere, 'lake = "of-file"')
    assert lake_in_error() == str(elsewhere / "of-file")
    monkeypatch.setenv("PREGAO_LAKE", "of-environment")
    assert lake_in_error() == str(elsewhere / "of-environment")
    assert lake_in_error("--lake", "of-option") == str(elsewhere / "of-option")


def test_an_error_in_the_file_does_not_affect_commands_that_do_not_need_it(pregao, elsewhere):
    write(elsewhere, "lakes = 1")
    assert pregao("lake", "tables").err.count("line 1: unknown setting lakes") == 1
    assert "is not a lake" in pregao("lake", "tables", "--lake", "none").err
    assert pregao("schema").code == 0
    assert pregao("lake", "tables", "--help").code == 0


def test_a_time_without_a_zone_is_one_of_the_zone_that_was_set(elsewhere, monkeypatch, capsys):
    text = "2026-05-21T10:00:00"
    assert moment(text, "--at") == TEN_IN_BRAZIL - 3 * 3600 * 10**9
    assert capsys.readouterr().err == (
        f"pregao: --at {text} in UTC is 2026-05-21T10:00:00.000000000Z\n"
    )
    write(elsewhere, 'tz = "America/Sao_Paulo"')
    assert moment(text, "--at") == TEN_IN_BRAZIL
    assert capsys.readouterr().err == (
        f"pregao: --at {text} in America/Sao_Paulo is 2026-05-21T13:00:00.000000000Z\n"
    )
    assert moment(text, "--at", "Europe/Lisbon") == TEN_IN_BRAZIL - 4 * 3600 * 10**9
    capsys.readouterr()
    for whole in ("2026-05-21T13:00:00Z", "2026-05-21T10:00:00-03:00", str(TEN_IN_BRAZIL)):
        assert moment(whole, "--at") == TEN_IN_BRAZIL
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("digits", "unit", "zeros"),
    [("1779368400", "seconds", 9), ("1779368400000", "milliseconds", 6),
     ("1779368400000000", "microseconds", 3), ("-1779368400", "seconds", 9)],
)  # fmt: skip
def test_an_integer_that_does_not_count_nanoseconds_is_refused(digits, unit, zeros):
    sentence = f"^{digits} is not a time in nanoseconds .* If it is in {unit}, append {zeros} zeros"
    with pytest.raises(UsageError, match=sentence):
        moment(digits, "--at")
    with pytest.raises(UsageError, match=sentence):
        moment_ns(int(digits))
    with pytest.raises(UsageError, match=sentence):
        moment_ns(digits)
    assert moment_ns(int(digits + "0" * zeros)) == int(digits + "0" * zeros)


def test_an_unknown_zone(pregao, elsewhere):
    result = pregao(
        "book", "PETR4", "--lake", "x", "--at", "2026-05-21 10:00", "--tz", "America/Sao_Paolo"
    )
    assert result.code == 2
    assert "Did you mean America/Sao_Paulo?" in result.err


def test_where_no_zones_are_known(monkeypatch):
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(UsageError, match="pip install tzdata"):
        moment("2026-05-21", "--at", "No/Where")


def test_the_doctor_reports_the_settings(pregao, elsewhere, monkeypatch):
    from pregao.cli import doctor, doctor_checks

    only = [("configuration", doctor_checks.check_configuration)]
    monkeypatch.setattr(doctor, "_checks", lambda: only)

    def doctor_finding():
        (found,) = json.loads(pregao("doctor", "--json").out)
        return found["health"], found["found"]

    assert doctor_finding() == ("ok", "no pregao.toml")
    path = write(elsewhere, 'lake = "b3"\ntz = "America/Sao_Paulo"')
    assert doctor_finding() == ("ok", f"{path}; lake {elsewhere / 'b3'}; tz America/Sao_Paulo")
    monkeypatch.setenv("PREGAO_LAKE", "other")
    assert doctor_finding()[1] == f"{path}; lake other (PREGAO_LAKE); tz America/Sao_Paulo"
    monkeypatch.setitem(os.environ, "PREGAO_TZ", "No/Where")
    assert doctor_finding()[0] == "problem"


def test_a_feed_has_one_or_two_letters():
    assert feeds(["233.1.1.1:5=B", "233.1.1.2:5=AB"]) == [
        ("233.1.1.1:5", "B"),
        ("233.1.1.2:5", "AB"),
    ]
    for wrong in ("233.1.1.1:5=", "233.1.1.1:5=b", "233.1.1.1:5=ABC", "233.1.1.1=A", "AB"):
        with pytest.raises(UsageError, match="--feed must be ADDRESS:PORT=A"):
            feeds([wrong])
