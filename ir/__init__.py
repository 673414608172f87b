"""What programs are made of: types, attributes, operations, regions, locations, diagnostics, text. Knows no dialect."""
