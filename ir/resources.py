"""The `{-# … #-}` section behind a program: blobs that its `dense_resource` attributes name, and resources of tools outside."""

from __future__ import annotations

from gradopt.ir.attributes import ArrayAttr, Attribute, DenseResourceAttr, DictionaryAttr, TypeAttr, key_text
from gradopt.ir.operation import Operation
from gradopt.ir.text import escape_string

__all__ = ["external_resources", "metadata_text"]

External = dict[str, dict[str, "str | bool"]]


def external_resources(module: Operation) -> External:
    """The external resources of a module: group, key, a string or a truth value."""
    found: External = getattr(module, "external_resources", None) or {}
    return found


def metadata_text(root: Operation) -> str:
    """The section, or nothing."""
    blobs = _blobs(root) if DenseResourceAttr._pool else {}
    external = external_resources(root)
    sections = []
    if blobs:
        lines = ",\n".join(f'      {key_text(name)}: "0x{blob.hex().upper()}"' for name, blob in blobs.items())
        sections.append(f"  dialect_resources: {{\n    builtin: {{\n{lines}\n    }}\n  }}")
    if external:
        groups = ",\n".join(f"    {key_text(group)}: {{\n{_entries(entries)}\n    }}" for group, entries in external.items())
        sections.append(f"  external_resources: {{\n{groups}\n  }}")
    return "\n{-#\n" + ",\n".join(sections) + "\n#-}\n" if sections else ""


def _entries(entries: dict[str, str | bool]) -> str:
    return ",\n".join(f"      {key_text(key)}: {str(value).lower() if isinstance(value, bool) else escape_string(value)}"
                      for key, value in entries.items())


def _blobs(root: Operation) -> dict[str, bytes]:
    """Every blob that an attribute names, in the order of the text."""
    found: dict[str, bytes] = {}
    seen: set[Attribute] = set()
    for op in root.walk():
        for value in [entries[name] for entries in (op.properties, op.attributes) for name in sorted(entries)]:
            pending: list[Attribute] = [value]
            while pending:
                attribute = pending.pop()
                if attribute in seen:
                    continue
                seen.add(attribute)
                if isinstance(attribute, DenseResourceAttr):
                    if attribute.blob is not None:
                        found.setdefault(attribute.resource, attribute.blob)
                elif isinstance(attribute, ArrayAttr):
                    pending += reversed(attribute.elements)
                elif isinstance(attribute, DictionaryAttr):
                    pending += reversed([entry for _, entry in attribute.entries])
                elif isinstance(attribute, TypeAttr):
                    encoding = getattr(attribute.type, "encoding", None)
                    pending += [encoding] if encoding is not None else []
    return found
