"""The store of object code: what is kept, what is refused, and what happens to damaged files."""

from __future__ import annotations

import ast
import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from gradopt.lowering.native import cache, codegen, compile, compile_helper, kernels, symbols
from gradopt.lowering.native.errors import KernelError
from gradopt.lowering.native.program import KernelSource

SOURCE = """
def kernel(lo, hi, context):
    x = pointer_f32(context, 0)
    for i in range(lo, hi):
        store(x, i, load(x, i) * f32({number}))
    return 0
"""


def kernel(number: float) -> KernelSource:
    return KernelSource("scale", SOURCE.format(number=number))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    os.chmod(tmp_path, 0o700)
    return tmp_path


@pytest.fixture(autouse=True)
def forget_loaded_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "_LOADED", {})


def test_second_compilation_reads_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile.compile_kernels([kernel(1.5), kernel(2.5), kernel(1.5)], "direct", folder)
    assert first.addresses[0] == first.addresses[2] != first.addresses[1]
    assert (first.timings.compiled, first.timings.from_cache) == (2, 0)
    assert compile.compile_kernels([kernel(1.5)], "direct", folder).timings.in_process == 1
    monkeypatch.setattr(compile, "_LOADED", {})
    second = compile.compile_kernels([kernel(1.5), kernel(2.5)], "direct", folder)
    assert (second.timings.compiled, second.timings.from_cache) == (0, 2)


def test_a_name_is_no_part_of_the_identity(folder: Path) -> None:
    named = KernelSource("another name", kernel(1.5).source)
    found = compile.compile_kernels([kernel(1.5), named], "direct", folder)
    assert found.addresses[0] == found.addresses[1] and found.timings.compiled == 1


def test_files_are_private_and_readable(folder: Path) -> None:
    compile.compile_kernels([kernel(1.5)], "direct", folder)
    files = sorted(folder.iterdir())
    assert [file.suffix for file in files] == [".o", ".py"]
    assert files[1].read_text() == kernel(1.5).source
    data = files[0].read_bytes()
    assert data[:8] == cache.MAGIC and data[8:40] == hashlib.sha256(data[40:]).digest()
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "other checksum"])
def test_damaged_files_are_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    compile.compile_kernels([kernel(1.5)], "direct", folder)
    path = next(folder.glob("*.o"))
    good = path.read_bytes()
    path.write_bytes({
        "truncated": good[:-100],
        "flipped": good[:200] + bytes([good[200] ^ 1]) + good[201:],
        "empty": b"",
        "foreign": cache.MAGIC + hashlib.sha256(b"not an object").digest() + b"not an object",
        "other checksum": good[:20] + b"\0" + good[21:],
    }[damage])  # fmt: skip
    monkeypatch.setattr(compile, "_LOADED", {})
    assert compile.compile_kernels([kernel(1.5)], "direct", folder).timings.compiled == 1
    assert path.read_bytes() == good


def test_truncation_at_every_length_is_noticed(folder: Path) -> None:
    compile.compile_kernels([kernel(1.5)], "direct", folder)
    path = next(folder.glob("*.o"))
    good = path.read_bytes()
    for length in range(0, len(good), 37):
        path.write_bytes(good[:length])
        assert cache.read(folder, path.stem) is None
    for length in range(0, len(good) - 40, 13):
        with_right_checksum = good[40 : 40 + length]
        path.write_bytes(cache.MAGIC + hashlib.sha256(with_right_checksum).digest() + with_right_checksum)
        found = cache.read(folder, path.stem)
        assert found is None or found == with_right_checksum


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
def test_a_folder_that_others_may_write_to_is_ignored(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o777)
    assert cache.open_folder(shared) is None
    found = compile.compile_kernels([kernel(3.5)], "direct", shared)
    assert found.timings.compiled == 1 and list(shared.iterdir()) == []
    os.chmod(shared, 0o700)
    assert cache.open_folder(shared) == shared


def test_new_folders_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADOPT_CACHE_DIR", str(tmp_path / "new" / "cache"))
    folder = cache.open_folder()
    assert folder == tmp_path / "new" / "cache" and stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    assert cache.open_folder(tmp_path / "file") is None
    assert cache.open_folder(tmp_path / "file" / "below") is None


def test_the_platform_decides_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADOPT_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.default_folder() == Path("/somewhere/gradopt")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", "/users/x")
    assert cache.default_folder() == Path("/users/x/Library/Caches/gradopt")


def test_two_processes_and_many_threads_fill_one_cache(folder: Path) -> None:
    code = (
        "from gradopt.lowering.native.compile import compile_kernels\n"
        "from gradopt.lowering.native.program import KernelSource\n"
        f"SOURCE = {SOURCE!r}\n"
        "compile_kernels([KernelSource('k', SOURCE.format(number=i + 0.25)) for i in range(6)])\n"
    )
    environment = os.environ | {"GRADOPT_CACHE_DIR": str(folder)}
    processes = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    threads = [threading.Thread(target=compile.compile_kernels, args=([kernel(i + 0.25)], "direct", folder)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert len(list(folder.glob("*.o"))) == 6 and not list(folder.glob(".new-*"))
    assert all(cache.read(folder, path.stem) for path in folder.glob("*.o"))


@pytest.fixture
def willing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper starts for two kernels, whatever the machine is."""
    monkeypatch.setattr(compile_helper, "HELPED_FROM", 2)
    monkeypatch.setattr(compile_helper, "may_start_helper", lambda: True)


@pytest.mark.usefixtures("willing")
def test_a_second_process_helps(folder: Path) -> None:
    """Whoever compiles a kernel, each ends up loaded and stored once, and nothing temporary is left."""
    wanted = [kernel(i + 0.125) for i in range(40)]
    with compile.helped(wanted, "direct", folder) as helper:
        assert helper is not None
        while len(helper._left) == 40:  # the helper has begun
            pass
        found = compile.compile_kernels(wanted, "direct", folder, helper=helper)
    assert found.timings.helped and found.timings.compiled < 40
    assert len(set(found.addresses)) == 40
    assert len(list(folder.glob("*.o"))) == 40 and not list(folder.glob(".new-*"))


@pytest.mark.usefixtures("willing")
def test_a_bad_kernel_is_reported_with_a_helper(folder: Path) -> None:
    bad = KernelSource("bad", "def kernel(lo, hi, context):\n    return nothing\n")
    wanted = [*[kernel(i + 0.0625) for i in range(5)], bad]
    with pytest.raises(KernelError, match="nothing is not defined"), compile.helped(wanted, "direct", folder) as helper:
        compile.compile_kernels(wanted, "direct", folder, helper=helper)


@pytest.mark.usefixtures("willing")
def test_a_helper_that_ends_early_is_done_without(folder: Path) -> None:
    wanted = [kernel(i + 0.03125) for i in range(6)]
    with compile.helped(wanted, "direct", folder) as helper:
        assert helper is not None
        helper._process.kill()
        found = compile.compile_kernels(wanted, "direct", folder, helper=helper)
    assert len(set(found.addresses)) == 6 and not list(folder.glob(".new-*"))


def test_no_helper_for_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_helper, "HELPED_FROM", 1)
    monkeypatch.setattr(compile_helper, "may_start_helper", lambda: True)
    loaded = compile.compile_kernels([kernel(7.75)], "direct", folder)
    with compile.helped([kernel(7.75)], "direct", folder) as helper:
        assert helper is None and len(loaded.kernels) == 1


EXTERNAL = """
declare i32 @system(i8*)
declare double @pow(double, double)
@text = internal constant [3 x i8] c"ls\\00"
define i32 @gradopt_bad(i64 %lo, i64 %hi, i64* %context) {
  %status = call i32 @system(i8* getelementptr ([3 x i8], [3 x i8]* @text, i64 0, i64 0))
  %x = sitofp i64 %lo to double
  %y = call double @pow(double %x, double %x)
  %z = fptosi double %y to i32
  %sum = add i32 %z, %status
  ret i32 %sum
}
"""


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "x86_64-apple-macosx11", "x86_64-pc-windows-msvc"])
def test_symbols_of_all_object_formats(triple: str) -> None:
    """The three formats are read; what is not on the list is named."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        machine = codegen.target_machine(codegen.Target(triple, "", ""))
    except RuntimeError:
        pytest.skip("this LLVM has no x86 target")
    module = llvm.parse_assembly(f'target triple = "{triple}"\n' + EXTERNAL)
    data = machine.emit_object(module)
    assert symbols.forbidden_symbols(data) == {"system", "pow"}
    for length in range(0, len(data), 11):
        try:
            symbols.undefined_symbols(data[:length])
        except symbols.ObjectFormatError:
            continue


def test_forbidden_code_is_neither_stored_nor_read(folder: Path) -> None:
    data = codegen.object_code(codegen.with_layout(EXTERNAL))
    with pytest.raises(symbols.ObjectFormatError, match="refers to pow, system"):
        cache.write(folder, "bad", data, "")
    assert list(folder.iterdir()) == []
    (folder / "bad.o").write_bytes(cache.MAGIC + hashlib.sha256(data).digest() + data)
    assert cache.read(folder, "bad") is None


def test_keys_differ_for_everything_that_changes_code() -> None:
    assert cache.key("a", "bc") != cache.key("ab", "c")
    texts = {compile._identity(front_end) for front_end in ("direct", "numba")}
    assert len(texts) == 2 and all(codegen.host().cpu in text for text in texts)


def test_numba_is_not_imported_for_cached_kernels(folder: Path) -> None:
    code = (
        "import sys\n"
        "from gradopt.lowering.native.compile import compile_kernels\n"
        "from gradopt.lowering.native.program import KernelSource\n"
        f"found = compile_kernels([KernelSource('k', {kernel(8.5).source!r})], 'numba')\n"
        "print(found.timings.compiled, 'numba' in sys.modules)\n"
    )
    environment = os.environ | {"GRADOPT_CACHE_DIR": str(folder)}
    outputs = [subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split() for _ in range(2)]
    assert outputs == [["1", "True"], ["0", "False"]]


def test_both_front_ends_name_the_same_function() -> None:
    for front_end in kernels.FRONT_ENDS.values():
        assert f"@{kernels.symbol(kernel(1.5))}" in front_end(kernel(1.5)).replace('"', "")


def test_the_key_covers_every_module_that_decides_the_code() -> None:
    """Whatever the compiler's own modules import belongs to them, but for errors, locks, the program's data and what reads objects."""
    folder = Path(compile.__file__).parent
    hashed = {path for pattern in compile._COMPILER_MODULES for path in folder.glob(f"{pattern}.py")}
    package = "gradopt.lowering.native."
    imported = {node.module.removeprefix(package) for path in hashed for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(package)}
    missing = {name for name in imported if folder / f"{name.replace('.', '/')}.py" not in hashed} - {"math"}
    assert missing == {"errors", "program", "symbols"}
