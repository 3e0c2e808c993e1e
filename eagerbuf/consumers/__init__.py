"""What else SGLang sizes by `max_prefill_buffer_tokens`: each consumer, its formula, its bytes."""
