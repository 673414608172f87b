"""Maps the five code folders at the root into the one import package `gradopt` (the rest is in pyproject.toml)."""

from setuptools import find_packages, setup

FOLDERS = ("ir", "dialects", "parser", "lowering", "tools")
packages = ["gradopt"]
for folder in FOLDERS:
    packages += [f"gradopt.{folder}", *(f"gradopt.{folder}.{package}" for package in find_packages(folder))]

setup(
    packages=packages,
    package_dir={"gradopt": "src/gradopt", **{f"gradopt.{folder}": folder for folder in FOLDERS}},
    package_data={"gradopt": ["py.typed"], "gradopt.parser": ["*.lark"]},
)
