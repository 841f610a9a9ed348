"""Files of the three levels as they are written to a directory."""

from pathlib import Path

from threegate.host.deploy.files import write


def test_a_file_is_written_through_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    place = tmp_path / "infra/squid"
    place.mkdir(parents=True)
    (place / ".squid.conf.new").symlink_to(precious)
    files = {"squid/squid.conf": "http_access deny all\n"}
    assert write(tmp_path / "infra", files) == ["squid/squid.conf"]
    assert (place / "squid.conf").read_text() == files["squid/squid.conf"], "control"
    assert not (place / "squid.conf").is_symlink()
    assert precious.read_text() == "kept"
    assert write(tmp_path / "infra", files) == [], "and what is there as it should be stays"
