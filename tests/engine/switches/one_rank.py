"""A switch: one TP rank of stage 0 fails to load its first probe, and what would mend that.

`turn_on({"rank": 1, "agree": true})`: with `agree`, the TP ranks of the stage tell one another
whether their probe is loaded before any of them runs it (one all-reduce of a number a probe), and
all of them give up if one could not. Then every TP rank fails, and that the release does tell.
"""

from sitecustomize import after


def turn_on(value):
    @after("sglang.srt.model_executor.runner.eager_runner")
    def watch(module):
        load = module.EagerRunner.load_batch

        def fail_once(self, *args, **kwargs):
            import torch.distributed as dist

            if dist.get_rank() == value["rank"] and not hasattr(module, "failed"):
                module.failed = True
                raise RuntimeError(f"injected: rank {value['rank']} alone")
            return load(self, *args, **kwargs)

        def agree(self, *args, **kwargs):
            loaded, failure = None, None
            try:
                loaded = fail_once(self, *args, **kwargs)
            except Exception as error:
                failure = error
            if not _all_loaded(failure is None):
                raise failure or RuntimeError("another TP rank of this stage failed")
            return loaded

        module.EagerRunner.load_batch = agree if value["agree"] else fail_once


def _all_loaded(here):
    import torch
    import torch.distributed as dist
    from sglang.srt.distributed import parallel_state

    ready = torch.tensor([int(here)])
    dist.all_reduce(ready, op=dist.ReduceOp.MIN, group=parallel_state.get_tp_group().cpu_group)
    return bool(ready[0])
