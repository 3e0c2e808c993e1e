"""A switch: the release's own dummy run of the autotune, where FlashInfer would time its kernels.

`BaseRunner.warmup` returns on any device but CUDA, so it is entered from here. Its buffers and its
dummy run are the release's; a recorder that tells how many rows the dummy has stands for
FlashInfer's timer.
"""

from sitecustomize import after, tell


def turn_on(_):
    @after("sglang.srt.model_executor.runner.base_runner")
    def watch(module):
        def time_nothing(self, *, buffers, batch_size):
            import torch
            from sglang.srt.layers.logits_processor import autotune_dummy_run_mode

            tell(dummy_rows=batch_size)
            with torch.inference_mode(), autotune_dummy_run_mode():
                self._dummy_run(batch_size=batch_size, buffers=buffers)
            tell(dummy_ran=batch_size)

        def warmup(self):
            runner = self.model_runner
            if not getattr(runner, "_kernel_warmed_up", False):
                runner._kernel_warmed_up = True
                buffers, batch_size = self._autotune_buffers()
                self._flashinfer_autotune(buffers=buffers, batch_size=batch_size)

        module.BaseRunner._flashinfer_autotune = time_nothing
        module.BaseRunner.warmup = warmup
