"""SGLang itself on this machine: a released engine, started, watched and ended."""

from eagerbuf.engine.environment import EngineMissing, available
from eagerbuf.engine.report import EngineReport
from eagerbuf.engine.run import run_engine

__all__ = ["EngineMissing", "EngineReport", "available", "run_engine"]
