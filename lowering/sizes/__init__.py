"""Passes over symbolic sizes: `bind` fixes named ones, `infer-shapes` finds better known ones."""
