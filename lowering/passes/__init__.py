"""Passes: what one is, how a pipeline of them is written, and what runs it."""

from gradopt.lowering.passes.base import InternalError, Pass, PassContext, option
from gradopt.lowering.passes.manager import PassManager, run_passes
from gradopt.lowering.passes.pipeline import Item, Nested, PipelineError, build_pipeline, pipeline_text

__all__ = ["InternalError", "Item", "Nested", "Pass", "PassContext", "PassManager", "PipelineError", "build_pipeline", "option",
           "pipeline_text", "run_passes"]
