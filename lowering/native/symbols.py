"""The symbols that an object file asks the process for: ELF, Mach-O and COFF, 64 bits, little endian.

Kernels may refer only to the few names below; what an object file asks for is read from its symbol table before it is
stored and again before it is loaded, so a damaged or foreign file never reaches the loader.
"""

from __future__ import annotations

import struct

ALLOWED = frozenset(
    ("memcpy", "memmove", "memset", "bzero", "fmod", "fmodf", "_GLOBAL_OFFSET_TABLE_", "_fltused", "__chkstk",
     "___chkstk_ms", "__truncsfhf2", "__extendhfsf2", "__gnu_f2h_ieee", "__gnu_h2f_ieee")
)  # fmt: skip

NOT_CALLED = frozenset(("_GLOBAL_OFFSET_TABLE_", "_fltused"))
"""Names that an object file may mention without anything being called."""


class ObjectFormatError(ValueError):
    """Not an object file that this module can read."""


def undefined_symbols(data: bytes) -> frozenset[str]:
    """Names that the object refers to and does not define.  Raises ObjectFormatError for anything else."""
    try:
        if data[:5] == b"\x7fELF\x02":
            return _elf(data)
        if data[:4] == b"\xcf\xfa\xed\xfe":
            return _macho(data)
        if data[:2] in (b"\x64\x86", b"\x64\xaa"):
            return _coff(data)
    except (struct.error, IndexError, ValueError) as error:
        raise ObjectFormatError(f"damaged object file: {error}") from None
    raise ObjectFormatError("not an ELF, Mach-O or COFF object of 64 bits")


def forbidden_symbols(data: bytes) -> frozenset[str]:
    """Undefined symbols that are not on the list."""
    return undefined_symbols(data) - ALLOWED


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("ascii", "replace")


def _elf(data: bytes) -> frozenset[str]:
    section_offset = struct.unpack_from("<Q", data, 0x28)[0]
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    found = set()
    for _, kind, _, _, offset, size, link, _, _, symbol_size in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for position in range(offset + symbol_size, offset + size, symbol_size):
            name, _, _, section = struct.unpack_from("<IBBH", data, position)
            if section == 0:
                found.add(_string(data, names + name))
    return frozenset(found)


def _macho(data: bytes) -> frozenset[str]:
    commands = struct.unpack_from("<I", data, 16)[0]
    position, found = 32, set()
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, position)
        if command == 2:  # LC_SYMTAB
            symbols, count, names, _ = struct.unpack_from("<IIII", data, position + 8)
            for i in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                if kind & 0xE0 == 0 and kind & 0x0E == 0 and value == 0:  # no debugging entry, undefined, not common
                    found.add(_string(data, names + name).removeprefix("_"))
        position += size
    return frozenset(found)


def _coff(data: bytes) -> frozenset[str]:
    table, count = struct.unpack_from("<II", data, 8)
    names, found, index = table + 18 * count, set(), 0
    while index < count:
        position = table + 18 * index
        value, section, _, storage, auxiliary = struct.unpack_from("<IhHBB", data, position + 8)
        if section == 0 and storage == 2 and value == 0:  # external, undefined
            zeros, offset = struct.unpack_from("<II", data, position)
            short = data[position : position + 8].rstrip(b"\0").decode("ascii", "replace")
            found.add(_string(data, names + offset) if zeros == 0 else short)
        index += 1 + auxiliary
    return frozenset(found)
