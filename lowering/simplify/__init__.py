"""Passes that keep the meaning and make the program smaller: canonicalize, cse, dce, fold, inline, symbol-dce, licm."""
