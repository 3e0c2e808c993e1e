"""The public names and where each lives: the one list, for type checkers and for __init__.py."""

from eagerbuf.admission import admit as admit
from eagerbuf.buffers import StaticBuffers as StaticBuffers
from eagerbuf.config import EngineConfig as EngineConfig
from eagerbuf.diagnose.report import Report as Report
from eagerbuf.diagnose.verdict import check as check
from eagerbuf.engine import EngineReport as EngineReport
from eagerbuf.engine import run_engine as run_engine
from eagerbuf.engine.record import record_batches as record_batches
from eagerbuf.model import Model as Model
from eagerbuf.model import find_model as find_model
from eagerbuf.model import models as models
from eagerbuf.predictor import ChunkSizePredictor as ChunkSizePredictor
from eagerbuf.predictor import probe_lengths as probe_lengths
from eagerbuf.read import Reading as Reading
from eagerbuf.read import read_config as read_config
from eagerbuf.read import read_log as read_log
from eagerbuf.read import read_servers as read_servers
from eagerbuf.releases import Release as Release
from eagerbuf.releases import find_release as find_release
from eagerbuf.repro.autotune import hybrid_bucket as hybrid_bucket
from eagerbuf.repro.autotune import hybrid_buckets as hybrid_buckets
from eagerbuf.repro.hang import HangReport as HangReport
from eagerbuf.repro.hang import run_hang as run_hang
from eagerbuf.shapes import Shape as Shape
from eagerbuf.shapes import mlp_sync_pad as mlp_sync_pad
from eagerbuf.shapes import worst_shapes as worst_shapes
from eagerbuf.simulate.scheduler import replay as replay
from eagerbuf.simulate.workloads import load_requests as load_requests
from eagerbuf.simulate.workloads import sample_requests as sample_requests
from eagerbuf.sizing import RULES as RULES
from eagerbuf.sizing import BufferSize as BufferSize
from eagerbuf.sizing import buffer_size as buffer_size
from eagerbuf.sizing import ceil_align as ceil_align
from eagerbuf.sizing import max_prefill_buffer_tokens as max_prefill_buffer_tokens
from eagerbuf.sizing import size_many as size_many
from eagerbuf.studies.price import price_rules as price_rules

__version__: str
__all__: list[str]

def __dir__() -> list[str]: ...
