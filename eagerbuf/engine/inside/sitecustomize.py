"""What a CPU lacks, stood in for in every process of a released SGLang that this machine starts.

Python imports this file by its name before anything else, as its folder comes first on PYTHONPATH.
Without EAGERBUF_ENGINE_RUN in the environment it does nothing. Each stand-in is listed in
STAND_INS; whatever is not listed there is SGLang's own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType

RUN = json.loads(os.environ.get("EAGERBUF_ENGINE_RUN", "null"))
_GPU, _GRAMMAR = "compiled for a GPU", "structured output, which is off"
_MEDIA, _TOKENS = "images, audio and video, which are not sent", "tokenizers; there is none"
ABSENT = {
    **dict.fromkeys(("triton", "tvm_ffi", "sgl_kernel", "flashinfer", "deep_gemm"), _GPU),
    **dict.fromkeys(("xgrammar", "outlines", "llguidance", "interegular"), _GRAMMAR),
    "openai_harmony": "one model's chat format, which is not spoken",
    **dict.fromkeys(("torchvision", "torchaudio", "torchcodec", "soundfile", "decord"), _MEDIA),
    "scipy": _MEDIA,
    **dict.fromkeys(("tiktoken", "sentencepiece"), _TOKENS),
    "torchao": "quantised weights, which are not loaded",
    "torch_memory_saver": "releases a GPU's memory",
}
STAND_INS = {
    **{name: f"an empty module: {why}" for name, why in ABSENT.items()},
    "torch.tensor": "without pin_memory, which only a GPU's driver can give",
    "torch.library.Library.impl": "SGLang's operators, registered for CUDA, also under the key CPU",
    "register_image_processor": "does nothing: transformers takes no image without torchvision",
    "TorchNativeAttnBackend.get_cuda_graph_seq_len_fill_value": "1; the back end for CPUs lacks it",
    "TorchNativeAttnBackend.get_cpu_graph_seq_len_fill_value": "1; the back end for CPUs lacks it",
    "dp_attention.memcpy_triton": "two slices instead of a triton kernel",
    "paged.alloc_extend_kernel": "SGLang's own alloc_extend_naive instead of a triton kernel",
    "paged.alloc_decode_kernel": "indexing instead of a triton kernel",
}
Action = Callable[[ModuleType], None]
_AFTER: dict[str, list[Action]] = {}
_prepared: list[bool] = []


def tell(**event: object) -> None:
    """Say something to the caller of run_engine: a line of its own in the log, in one write."""
    os.write(2, b"\n\x1e" + json.dumps(event).encode() + b"\n")


def after(module: str) -> Callable[[Action], Action]:
    """Have a function run on a module of SGLang as soon as that is loaded."""

    def keep(action: Action) -> Action:
        _AFTER.setdefault(module, []).append(action)
        return action

    return keep


class _Loaded:
    """Runs what `after` kept, and prepares torch before the first module of SGLang is loaded."""

    def find_spec(self, name: str, path: object = None, target: object = None):
        if name == "sglang":
            _prepare_once()
        if name not in _AFTER:
            return None
        actions = _AFTER.pop(name)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            for action in actions:
                action(module)

        spec.loader.exec_module = execute_and_act
        return spec


class _Anything:
    """What an empty module has by a capital name: a class of which nothing is an instance."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __init_subclass__(cls, **kwargs: object) -> None:
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
        from pydantic_core import core_schema

        return core_schema.any_schema()


class _Empty(ModuleType):
    """A module that is not there: any name of it exists, none does anything.

    Called, it is a decorator that leaves a function as it is, with arguments or without.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        made = type(name, (_Anything,), {}) if name[0].isupper() else _Empty(whole)
        setattr(self, name, made)
        return made

    def __call__(self, *args: object, **kwargs: object) -> object:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda function: function

    def __iter__(self):
        return iter(())

    def __bool__(self) -> bool:
        return False


class _Absent:
    """Packages that are not there, as empty modules, for SGLang's own files only."""

    def find_spec(self, name: str, path: object = None, target: object = None):
        if name.split(".")[0] not in ABSENT or not _asked_by_sglang():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        _settle_transformers()
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "triton":  # what is also computed without a GPU
            module.__version__ = "3.0.0"
            module.cdiv = lambda a, b: -(a // -b)
            module.next_power_of_2 = lambda n: 1 << (n - 1).bit_length()


def _asked_by_sglang() -> bool:
    frame = sys._getframe(2)
    while frame and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and f"{os.sep}sglang{os.sep}" in frame.f_code.co_filename


def _settle_transformers() -> None:
    """transformers looks once for what is installed; it must not find a stand-in."""
    if "transformers.models.auto.processing_auto" not in sys.modules:
        held = {k: sys.modules.pop(k) for k in list(sys.modules) if k.split(".")[0] in ABSENT}
        import transformers.models.auto.processing_auto  # noqa: F401

        sys.modules.update(held)


def _prepare_once() -> None:
    if not _prepared:
        _prepared.append(True)
        _settle_triton()
        _stand_in_for_torch()


def _settle_triton() -> None:
    """torch looks once whether there is triton; it must not find a stand-in."""
    import torch._inductor.compile_fx
    import torch._inductor.runtime.triton_heuristics  # noqa: F401
    import torch.utils._triton as triton

    for ask in vars(triton).values():
        if hasattr(ask, "cache_info"):
            try:
                ask()
            except Exception:
                continue


def _stand_in_for_torch() -> None:
    import torch

    tensor, impl = torch.tensor, torch.library.Library.impl

    def impl_on_cpu_too(self, op, function, key="", **kwargs):
        impl(self, op, function, key, **kwargs)
        if key == "CUDA" and self.ns == "sglang":
            impl(self, op, function, "CPU", **kwargs)

    torch.tensor = lambda *args, pin_memory=False, **kwargs: tensor(*args, **kwargs)
    torch.library.Library.impl = impl_on_cpu_too


@after("sglang.srt.configs.utils")
def _image_processors(module: ModuleType) -> None:
    module.register_image_processor = lambda config, processor: None


@after("sglang.srt.layers.attention.torch_native_backend")
def _fill_value(module: ModuleType) -> None:
    for name in ("get_cuda_graph_seq_len_fill_value", "get_cpu_graph_seq_len_fill_value"):
        setattr(module.TorchNativeAttnBackend, name, lambda self: 1)


@after("sglang.srt.layers.dp_attention")
def _memcpy(module: ModuleType) -> None:
    def memcpy(dst, src, dim, offset, sz, offset_src):
        at, rows = int(offset), int(sz)
        if offset_src:
            dst[:rows] = src[at : at + rows]
        else:
            dst[at : at + rows] = src[:rows]

    module.memcpy_triton = memcpy


@after("sglang.srt.mem_cache.allocator.paged")
def _pages(module: ModuleType) -> None:
    """The kernels of the paged pool, each called as `kernel[grid](...)`."""

    def extend(prefix_lens, seq_lens, last_loc, free_pages, out, _, page_size):
        sizes = prefix_lens, seq_lens, last_loc, free_pages
        module.alloc_extend_naive(*sizes, out, page_size, out.device)

    def decode(seq_lens, last_loc, free_pages, out, _, page_size):
        begins = (seq_lens - 1) % page_size == 0
        out[:] = last_loc + 1
        out[begins] = free_pages[: int(begins.sum())] * page_size

    for name, run in (("alloc_extend_kernel", extend), ("alloc_decode_kernel", decode)):
        setattr(module, name, defaultdict(lambda run=run: run))


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(4)


if RUN is not None:
    _die_with_parent()
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=False)
    sys.meta_path.insert(0, _Loaded())
    sys.meta_path.append(_Absent())
    import switches

    switches.turn_on(RUN["switches"])
