"""`gradopt-lsp-server`: a language server for MLIR text (needs the extra `gradopt[lsp]`, which installs pygls).

It speaks over standard input and output. Diagnostics as you type, hover with an operation's documentation and a value's type, go to
definition, find references, document symbols, completion of operation names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradopt.ir.diagnostics import Diagnostic
from gradopt.ir.locations import file_position
from gradopt.tools.command import print_version
from gradopt.tools.language import Document

if TYPE_CHECKING:
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

__all__ = ["Positions", "main", "make_server"]


class Positions:
    """Between character offsets and the protocol's positions (lines from 0, columns in UTF-16 units)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for offset, character in enumerate(text):
            if character == "\n":
                self.starts.append(offset + 1)

    def offset(self, line: int, column: int) -> int:
        """The offset of a position, at most the end of its line."""
        if line >= len(self.starts):
            return len(self.text)
        start = self.starts[line]
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.text)
        units = 0
        for offset in range(start, end):
            if units >= column:
                return offset
            units += 2 if ord(self.text[offset]) > 0xFFFF else 1
        return end

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of an offset."""
        from bisect import bisect_right

        line = bisect_right(self.starts, offset) - 1
        return line, sum(2 if ord(character) > 0xFFFF else 1 for character in self.text[self.starts[line]: offset])

    def span(self, start: int, end: int) -> types.Range:
        """The protocol's range between two offsets."""
        from lsprotocol import types

        return types.Range(types.Position(*self.position(start)), types.Position(*self.position(end)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the server until the editor ends it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words != ["--stdio"]:
        if words == ["--version"]:
            print_version("gradopt-lsp-server")
            return 0
        sys.stderr.write("usage: gradopt-lsp-server [--stdio | --version]; an editor starts it and speaks to it over standard input\n")
        return 0 if words in (["--help"], ["-h"]) else 2
    try:
        server = make_server()
    except ImportError as error:
        sys.stderr.write(f"gradopt-lsp-server: error: {error}; install the extra: pip install 'gradopt[lsp]'\n")
        return 1
    server.start_io()
    return 0


class OpenDocuments:
    """The documents that an editor has open, each read again only when its text changes."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.known: dict[str, tuple[str, Document, Positions]] = {}

    def get(self, uri: str) -> tuple[Document, Positions]:
        """A document as it is now, and the places in its text."""
        text = self.server.workspace.get_text_document(uri).source
        known = self.known.get(uri)
        if known is None or known[0] != text:
            known = self.known[uri] = (text, Document(uri, text), Positions(text))
        return known[1], known[2]

    def at(self, parameters: types.HoverParams | types.DefinitionParams | types.ReferenceParams | types.CompletionParams,
           ) -> tuple[Document, Positions, int]:
        """The document that a request is about, the places in it, and the offset that the request points at."""
        found, positions = self.get(parameters.text_document.uri)
        return found, positions, positions.offset(parameters.position.line, parameters.position.character)

    def publish(self, uri: str) -> None:
        """Sends a document's diagnostics."""
        from lsprotocol import types

        found, positions = self.get(uri)
        items = [as_diagnostic(diagnostic, uri, positions) for diagnostic in found.diagnostics]
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=items))

    def forget(self, uri: str) -> None:
        """Drops a document that was closed."""
        self.known.pop(uri, None)


def make_server() -> LanguageServer:
    """The server with all its features."""
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    from gradopt import __version__

    server = LanguageServer("gradopt-lsp-server", __version__)
    documents = OpenDocuments(server)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(parameters: types.DidOpenTextDocumentParams) -> None:
        documents.publish(parameters.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(parameters: types.DidChangeTextDocumentParams) -> None:
        documents.publish(parameters.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(parameters: types.DidCloseTextDocumentParams) -> None:
        documents.forget(parameters.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(parameters: types.HoverParams) -> types.Hover | None:
        found, _, offset = documents.at(parameters)
        text = found.hover(offset)
        return None if text is None else types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(parameters: types.DefinitionParams) -> types.Location | None:
        found, positions, offset = documents.at(parameters)
        mention = found.definition(offset)
        return None if mention is None else types.Location(parameters.text_document.uri, positions.span(mention.start, mention.end))

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(parameters: types.ReferenceParams) -> list[types.Location]:
        found, positions, offset = documents.at(parameters)
        return [types.Location(parameters.text_document.uri, positions.span(mention.start, mention.end))
                for mention in found.references(offset) if parameters.context.include_declaration or not mention.defines]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(parameters: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        found, positions = documents.get(parameters.text_document.uri)
        return [types.DocumentSymbol(item.name, types.SymbolKind.Function, positions.span(item.start, item.end),
                                     positions.span(item.start, item.end), item.detail) for item in found.outline()]

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["."]))
    def completion(parameters: types.CompletionParams) -> list[types.CompletionItem]:
        found, _, offset = documents.at(parameters)
        return [types.CompletionItem(name, detail=signature, kind=types.CompletionItemKind.Function)
                for name, signature in found.completions(offset)]

    return server


def as_diagnostic(diagnostic: Diagnostic, uri: str, positions: Positions) -> types.Diagnostic:
    """A diagnostic as the protocol has it; notes become related information."""
    from lsprotocol import types

    severities = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning,
                  "remark": types.DiagnosticSeverity.Information, "note": types.DiagnosticSeverity.Hint}

    def place(entry: Diagnostic) -> types.Range:
        position = file_position(entry.location)
        line, column = (position.line - 1, position.column - 1) if position is not None else (0, 0)
        start = positions.starts[line] + column if line < len(positions.starts) else len(positions.text)
        end = start
        while end < len(positions.text) and (positions.text[end].isalnum() or positions.text[end] in "%@#^_.$"):
            end += 1
        return positions.span(start, max(end, start + 1))

    related = [types.DiagnosticRelatedInformation(types.Location(uri, place(note)), note.message) for note in diagnostic.notes]
    return types.Diagnostic(place(diagnostic), diagnostic.message, severities[diagnostic.severity], source="gradopt",
                            related_information=related)


if __name__ == "__main__":
    sys.exit(main())
