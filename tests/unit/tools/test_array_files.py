"""Arrays from files and back: what is no array is refused, and nothing that a file holds is ever run."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gradopt.tools.array_files import is_array_file, read_array
from gradopt.tools.files import FileError
from gradopt.tools.options import UsageError
from gradopt.tools.results import save
from gradopt.tools.run import main

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Bomb:
    """What pickle would run."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return Path.touch, (Path("ran"),)  # type: ignore[return-value]


def header(text: str, length: int | None = None) -> bytes:
    """The start of a file in NumPy's format, version 2."""
    data = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x02\x00" + (len(data) if length is None else length).to_bytes(4, "little") + data


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name.replace("_", "."), data)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("array", [X, X.astype(">f4"), np.asfortranarray(X), np.float32(3), X[:0], X.astype("<i2"), np.array([True])])
def test_arrays(array: np.ndarray, here: Path) -> None:
    """In this machine's byte order, of any memory order and rank."""
    np.save("x.npy", array)
    np.savez("x.npz", only=array)
    for text in ("x.npy", "x.npz", "x.npz:only"):
        found = read_array(text)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == np.asarray(array).dtype.newbyteorder("=") and found.dtype.isnative


def test_a_negative_size(here: Path) -> None:
    """An error, or to NumPy before 2.3 the rest of the file: here nothing."""
    Path("x.npy").write_bytes(header("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }"))
    try:
        assert read_array("x.npy").size == 0
    except FileError as error:
        assert str(error).startswith("cannot read 'x.npy': ")


@pytest.mark.parametrize(("data", "message"), [
    (b"", ""),
    (b"junk", ""),
    (pickle.dumps(Bomb()), "it holds pickled Python objects, which are never loaded"),
    (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + pickle.dumps(Bomb()), "it holds pickled Python objects"),
    (header("__import__('pathlib').Path('ran').touch()"), ""),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }") + b"1234", ""),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,), }"), ""),
    (header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }") + b"1234", "it holds records of a, expected numbers"),
    (header("", 4_000_000_000), ""),
    (header(" " * 200_000), ""),
])
def test_what_is_no_array(data: bytes, message: str, here: Path) -> None:
    Path("x.npy").write_bytes(data)
    with pytest.raises(FileError, match=f"cannot read 'x.npy': {message}.*"):
        read_array("x.npy")
    assert not Path("ran").exists()


def test_archives(here: Path) -> None:
    np.savez("two.npz", a=X, b=X)
    np.savez("objects.npz", a=np.array([Bomb()], dtype=object))
    np.savez("none.npz")
    archive(here / "junk.npz", a_npy=b"junk")
    archive(here / "text.npz", a_txt=b"junk")
    Path("cut.npz").write_bytes(Path("two.npz").read_bytes()[:-30])
    Path("array.npz").write_bytes(header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }") + b"1234")
    Path("archive.npy").write_bytes(Path("two.npz").read_bytes())
    for text, message in (("two.npz", "has several arrays: write two.npz:a; it has a, b"), ("two.npz:c", "has no array 'c'; it has a, b"),
                          ("none.npz", "has no array ''; it has none")):
        with pytest.raises(UsageError, match=message):
            read_array(text)
    for text, message in (("objects.npz", "pickled Python objects"), ("junk.npz", "is no array"), ("text.npz", "is no array"),
                          ("cut.npz", "BadZipFile"), ("array.npz", r"it is one array \(.npy\)"), ("archive.npy", r"it is an archive \(.npz\)"),
                          (".npy", "No such file"), ("two.npz:a.npz:b", "No such file")):
        assert is_array_file(text)
        with pytest.raises(FileError, match=message):
            read_array(text)
    assert not Path("ran").exists()


def test_results_are_written_as_a_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save([X], "x.npy")
    monkeypatch.setattr("os.replace", lambda source, target: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for path in ("x.npy", "y.npz"):
        with pytest.raises(FileError, match=f"cannot write '{path}': No space left on device"):
            save([X + 1], path)
    assert [path.name for path in here.iterdir()] == ["x.npy"] and np.load("x.npy").tolist() == X.tolist()


def test_what_was_saved_is_an_argument(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also in bf16, for which NumPy has no type."""
    for element in ("f16", "bf16", "i1", "ui8"):
        Path("f.ir").write_text(f"func.func @f(%x: tensor<3x{element}>) -> tensor<3x{element}> {{\n  return %x : tensor<3x{element}>\n}}")
        assert main(["f.ir", "--arg=random", "--save=first.npy"]) == 0
        assert main(["f.ir", "--arg=first.npy", "--save=second.npy"]) == 0
        assert Path("first.npy").read_bytes() == Path("second.npy").read_bytes()
    capsys.readouterr()
