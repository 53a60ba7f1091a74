"""Pictures and the like in files, and what is left in the history."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from agent.artifacts import files_in, folder_of, put_away

DATA = base64.b64encode(b"\x89PNG picture").decode()
IMAGE = {"type": "image", "mimeType": "image/png", "data": DATA}


def away(block: Any, folder: Path | None) -> Any:
    return put_away({"content": [block], "structured_content": {"n": 1}}, folder)


def test_the_data_of_a_block_is_in_a_file_of_its_own(tmp_path: Path) -> None:
    artifact = away(IMAGE, tmp_path / "s-1")
    (file,) = map(Path, files_in(artifact))
    assert file.read_bytes() == b"\x89PNG picture"
    assert (file.suffix, file.stat().st_mode & 0o777) == (".png", 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    (block,) = artifact["content"]
    assert (block["bytes"], "data" in block) == (12, False)
    assert artifact["structured_content"] == {"n": 1}
    assert files_in(away(IMAGE, tmp_path / "s-1")) == [str(file)], "one content, one file"
    assert len(list(file.parent.iterdir())) == 1


def test_a_resource_is_put_away_too(tmp_path: Path) -> None:
    resource = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": DATA}
    artifact = away({"type": "resource", "resource": resource}, tmp_path)
    (file,) = files_in(artifact)
    assert Path(file).suffix == ".pdf"
    assert "blob" not in artifact["content"][0]["resource"]


def test_what_a_server_sends_twice_is_kept_once(tmp_path: Path) -> None:
    structured = {"files": [{"data": DATA, "name": "a.png"}], "n": 1}
    artifact = put_away({"content": [IMAGE], "structured_content": structured}, tmp_path)
    assert artifact["structured_content"] == {
        "files": [{"data": "(kept in a file)", "name": "a.png"}],
        "n": 1,
    }


def test_a_block_cannot_name_a_file_of_its_own(tmp_path: Path) -> None:
    link = {"type": "resource_link", "uri": "x:y", "file": "/etc/passwd", "bytes": 1, "sha256": "0"}
    artifact = away(link, tmp_path)
    assert artifact["content"] == [{"type": "resource_link", "uri": "x:y"}]
    assert files_in(artifact) == []


def test_one_result_leaves_a_few_files_only(tmp_path: Path) -> None:
    blocks = [{**IMAGE, "data": base64.b64encode(str(n).encode()).decode()} for n in range(200)]
    artifact = put_away({"content": blocks}, tmp_path)
    assert len(files_in(artifact)) == len(list(tmp_path.iterdir())) == 50


@pytest.mark.parametrize("mime", ["../../etc/passwd", "text/x;\0", "", None, "image/../x"])
def test_the_name_of_a_file_says_nothing_of_the_servers(tmp_path: Path, mime: Any) -> None:
    (file,) = map(Path, files_in(away({**IMAGE, "mimeType": mime}, tmp_path)))
    assert file.parent == tmp_path
    assert file.suffix == ".bin"


def test_what_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    artifact = away(IMAGE, tmp_path / "file" / "s-1")
    assert "could not be written" in artifact["content"][0]["lost"]
    assert files_in(artifact) == []


@pytest.mark.parametrize("folder", [None, "here"])
def test_what_is_no_base64_is_dropped(tmp_path: Path, folder: str | None) -> None:
    artifact = away({**IMAGE, "data": "no!"}, tmp_path / folder if folder else None)
    assert artifact["content"][0] == {
        "type": "image",
        "mimeType": "image/png",
        "lost": "it is not base64",
    }


@pytest.mark.parametrize("artifact", [None, {"transaction": "T1"}, [1], {"content": "text"}])
def test_other_artifacts_stay_as_they_are(artifact: Any) -> None:
    assert put_away(artifact, None) is artifact
    assert files_in(artifact) == []


def test_every_session_has_a_folder(tmp_path: Path) -> None:
    assert folder_of(tmp_path, "s-1") == tmp_path / "artifacts" / "s-1"
