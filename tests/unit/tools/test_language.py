"""The language server: what a document knows, and a conversation with the server itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from gradopt.tools.language import Document, Mention
from gradopt.tools.lsp_server import Positions

TEXT = """func.func @f(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %a, %b = prim.scan %x {length = 2, num_carry = 1} ({
  ^bb0(%s: tensor<4xf32>):
    %e = prim.exp %s : tensor<4xf32>
    prim.yield %e, %s : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>)
  %r = "prim.add"(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>  // %x again
  return %r : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %y = call @f(%x, %c) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  %p:2 = prim.barrier %y, %x : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %z = prim.add %p#0, %p#1 : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""


def at(line: int, text: str, occurrence: int = 0) -> int:
    """The offset of a text in a line (counted from 1)."""
    start = sum(len(row) + 1 for row in TEXT.split("\n")[: line - 1])
    offset = start - 1
    for _ in range(occurrence + 1):
        offset = TEXT.index(text, offset + 1)
    return offset


def lines(mentions: list[Mention]) -> list[tuple[int, str]]:
    return [(TEXT.count("\n", 0, mention.start) + 1, TEXT[mention.start: mention.end]) for mention in mentions]


@pytest.fixture(scope="module")
def document() -> Document:
    found = Document("a.ir", TEXT)
    assert found.diagnostics == []
    return found


def test_values(document: Document) -> None:
    assert lines(document.references(at(1, "%x"))) == [(1, "%x"), (2, "%x"), (7, "%x")]
    assert lines(document.references(at(4, "%s"))) == [(3, "%s"), (4, "%s"), (5, "%s")]
    assert lines(document.references(at(7, "%a"))) == [(2, "%a"), (7, "%a")]
    assert lines(document.references(at(13, "%p#1"))) == [(12, "%p:2"), (13, "%p#0"), (13, "%p#1")]
    definition = document.definition(at(11, "%x"))
    assert definition is not None and lines([definition]) == [(10, "%x")]
    assert document.definition(at(7, "again")) is None


def test_symbols(document: Document) -> None:
    assert lines(document.references(at(11, "@f"))) == [(1, "@f"), (11, "@f")]
    assert [item.name for item in document.outline()] == ["f", "g"]
    assert document.outline()[0].detail == "func.func @f : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>"


def test_hover(document: Document) -> None:
    assert document.hover(at(2, "%b")) == "```mlir\n%b : tensor<2x4xf32>\n```"
    for line, word in ((4, "prim.exp"), (7, "prim.add")):
        text = document.hover(at(line, word) + 2)
        assert text is not None and word in text and "Operands:" in text
    assert document.hover(at(11, "call") + 1) is not None
    assert document.hover(at(1, "tensor")) is None


def test_completions(document: Document) -> None:
    names = [name for name, _ in document.completions(at(4, "prim.exp") + len("prim.exp"))]
    assert names == ["prim.exp", "prim.exp2", "prim.expm1", "prim.expand"]


def test_errors() -> None:
    document = Document("a.ir", TEXT.replace("exp %s", "exp %t"))
    assert [diagnostic.message for diagnostic in document.diagnostics] == ["use of undeclared SSA value name '%t'"]
    assert document.mentions == [] and document.hover(at(1, "%x")) is None


def test_positions_count_utf16_units() -> None:
    positions = Positions("a𝄞b\nc")
    assert positions.position(2) == (0, 3)
    assert [positions.offset(0, column) for column in (0, 1, 3, 4, 9)] == [0, 1, 2, 3, 3]
    assert positions.offset(1, 1) == 5 and positions.offset(7, 0) == 5


class Client:
    """Speaks the protocol with a server process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.number = process, 0

    def send(self, method: str, parameters: dict[str, Any], request: bool = True) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        if request:
            self.number += 1
            message["id"] = self.number
        data = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()
        return self.wait(lambda answer: answer.get("id") == self.number)["result"] if request else None

    def wait(self, wanted: Any) -> Any:
        """The next message that is wanted."""
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline().strip()):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            assert length, "the server has ended"
            message = json.loads(stream.read(length))
            if wanted(message):
                return message


@contextmanager
def server() -> Iterator[Client]:
    process = subprocess.Popen([sys.executable, "-m", "gradopt.tools.lsp_server", "--stdio"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        client = Client(process)
        client.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        client.send("initialized", {}, request=False)
        yield client
        client.send("shutdown", {})
        client.send("exit", {}, request=False)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_conversation() -> None:
    uri = "file:///a.ir"
    with server() as client:
        client.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "mlir", "version": 1, "text": TEXT}}, request=False)
        published = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics")
        assert published["params"]["diagnostics"] == []
        place = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 20}}
        assert client.send("textDocument/hover", place)["contents"]["value"] == "```mlir\n%s : tensor<4xf32>\n```"
        assert client.send("textDocument/definition", place)["range"] == {
            "start": {"line": 2, "character": 7}, "end": {"line": 2, "character": 9}}
        references = client.send("textDocument/references", {**place, "context": {"includeDeclaration": False}})
        assert [location["range"]["start"]["line"] for location in references] == [3, 4]
        symbols = client.send("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        assert [symbol["name"] for symbol in symbols] == ["f", "g"]
        items = client.send("textDocument/completion", {**place, "position": {"line": 3, "character": 17}})
        assert "prim.exp" in [item["label"] for item in items]
        client.send("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2},
                                               "contentChanges": [{"text": TEXT.replace("exp %s", "exp %t")}]}, request=False)
        published = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics")
        (diagnostic,) = published["params"]["diagnostics"]
        assert diagnostic["message"] == "use of undeclared SSA value name '%t'" and diagnostic["range"]["start"]["line"] == 3
