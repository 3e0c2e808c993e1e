"""Commands of other inference engines, which take some of the same flags as SGLang's."""

from __future__ import annotations

from eagerbuf.read.text import pattern, shown

_GAP = r"[\s\"',\[\]-]+"  # between words in a shell, in a list, in YAML
_ENGINES = {
    "vLLM": rf"vllm{_GAP}(?:serve|bench)|vllm\.entrypoints[\w.]*|vllm/vllm-\w+",
    "TensorRT-LLM": r"trtllm-(?:serve|bench|llmapi-launch)|tensorrt_llm\.commands",
    "Text Generation Inference": r"text-generation-(?:launcher|server|inference)",
    "LMDeploy": rf"lmdeploy{_GAP}(?:serve|chat)|lmdeploy\.serve",
    "llama.cpp": r"llama-server|llama_cpp\.server",
}
_ANY = pattern(
    r"(?<![\w.-])(?:"
    + "|".join(f"(?P<_{i}>{source})" for i, source in enumerate(_ENGINES.values()))
    + ")"
)


def refuse_other_engine(text: str) -> None:
    """ValueError naming the engine, where a text holds a command of one that is not SGLang."""
    match = _ANY.search(text)
    if match:
        engine = list(_ENGINES)[int((match.lastgroup or "_0")[1:])]
        raise ValueError(
            f"text: {shown(match[0])} is a command of {engine}, not of SGLang; give SGLang's "
            "launch command, config file or start-up log"
        )
