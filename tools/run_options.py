"""The options of `gradopt-run`."""

from __future__ import annotations

from gradopt.tools.options import Option

__all__ = ["DESCRIPTION", "OPTIONS", "PROFILE_SECONDS", "USAGE"]

USAGE = "gradopt-run [options] [file | -]"
DESCRIPTION = ("Compiles a function of a file and runs it on arrays. A derivative that is not written down may be asked for by "
               "name: f_grad, f_value_and_grad, f_vjp, f_jvp, f_hvp of a function f. Exit status: as gradopt; 1 also where a "
               "gradient does not agree with central differences or a run-time check fails.")

PROFILE_SECONDS = "0.5"
_WHAT = "What to run"
_ANSWERS = "Answers"
_INFORMATION = "Information"

OPTIONS: tuple[Option, ...] = (
    Option("--entry", "the function (the only public one by default)", "NAME", ("-e",), group=_WHAT),
    Option("--arg", "an argument by name or position: x=x.npy, x=data.npz:key, x=random, x=random:LOW:HIGH, x=normal, x=zeros, "
           "x=ones, x=iota, x=3.5; without a name it stands for all that are not given", "ARGUMENT", ("-a",), repeats=True,
           group=_WHAT),
    Option("--size", "a size that the types leave open: batch=32", "NAME=N", repeats=True, group=_WHAT),
    Option("--seed", "of random arguments", "N", default=0, group=_WHAT, minimum=0),
    Option("--wrt", "the arguments (names or positions) that a derivative is with respect to", "LIST", group=_WHAT),
    Option("--pass", "passes to run before compiling", "PIPELINE", ("-p", "--passes"), repeats=True, group=_WHAT,
           empty=True),
    Option("--interpret", "run by the NumPy meaning of each operation instead of compiling", group=_WHAT),
    Option("--threads", "how many threads compute", "N", group=_WHAT, minimum=1, maximum=1024),
    Option("--allow-unregistered-dialect", "keep operations of unknown dialects as they are", group=_WHAT),
    Option("--save", "write the results to a file: .npz for all, .npy for the only one (more become name_0.npy …)", "FILE",
           ("-o",), group=_ANSWERS),
    Option("--print", "how to print results: short (the default), full, none (the default with --profile and --trace)", "HOW",
           choices=("short", "full", "none"), group=_ANSWERS),
    Option("--check-grad", "compare the derivatives with central differences in float64", group=_ANSWERS),
    Option("--time", "report compile time and run time", "SECONDS", optional=True, implied="0.5", group=_ANSWERS),
    Option("--memory", "report the memory of a call", group=_ANSWERS),
    Option("--profile", "report each kernel's time, floating-point operations, bytes, share of the machine's roofline, and the "
           "source lines that it computes or is the derivative of", "SECONDS", optional=True, implied=PROFILE_SECONDS, group=_ANSWERS),
    Option("--trace", "profile, and write a trace that Perfetto (ui.perfetto.dev) opens", "FILE", group=_ANSWERS),
    Option("--version", "print the version", group=_INFORMATION),
    Option("--help", "print this text", aliases=("-h",), group=_INFORMATION),
)
