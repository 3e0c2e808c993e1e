"""The eager runner's static input buffers in torch: allocated once, each batch copied in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from eagerbuf.sizing import BufferSize

_SIZE_FIELD = {"tokens": "max_num_tokens", "requests": "max_bs"}


@dataclass(frozen=True)
class Slot:
    """One static buffer, int64: its axis, its rows (None: one-dimensional), and where it lives."""

    name: str
    axis: str
    rows: int | None = None
    on_host: bool = False

    @cached_property
    def dims(self) -> int:
        """1, or 2 with rows."""
        return len(self.shape(0))

    def shape(self, length: int) -> tuple[int, ...]:
        """Shape of `length` tokens or requests of this slot: (length,) or (rows, length)."""
        return (length,) if self.rows is None else (self.rows, length)

    def front(self, buffer: torch.Tensor, length: int) -> torch.Tensor:
        """View of the first `length` tokens or requests (indexing is quicker than narrow)."""
        return buffer[:length] if self.rows is None else buffer[:, :length]


_SLOTS = (
    Slot("input_ids", "tokens"),
    Slot("positions", "tokens"),
    Slot("out_cache_loc", "tokens"),
    Slot("mrope_positions", "tokens", rows=3),
    Slot("req_pool_indices", "requests"),
    Slot("seq_lens", "requests"),
    Slot("seq_lens_cpu", "requests", on_host=True),
)


class StaticBuffers:
    """Input buffers of one eager runner on one torch device, sized once by a BufferSize.

    Slots (int64): input_ids, positions, out_cache_loc (tokens,), mrope_positions (3, tokens) if
    `mrope`, req_pool_indices, seq_lens, seq_lens_cpu (requests,); the last is on the host.
    Source: SGLang PR #28386, `build_eager_registry` (srt/model_executor).
    """

    def __init__(
        self, size: BufferSize, device: str | torch.device = "cpu", mrope: bool = True
    ) -> None:
        self.size = size
        self.device = torch.device(device)
        self.slots: Mapping[str, Slot] = MappingProxyType(
            {slot.name: slot for slot in _SLOTS if mrope or slot.name != "mrope_positions"}
        )
        self._buffers = {name: self._allocate(slot) for name, slot in self.slots.items()}
        self._together = self._by_device()
        self._axes = {
            axis: [slot.name for slot in self.slots.values() if slot.axis == axis]
            for axis in _SIZE_FIELD
        }

    def _allocate(self, slot: Slot) -> torch.Tensor:
        device = torch.device("cpu") if slot.on_host else self.device
        return torch.zeros(slot.shape(self.capacity(slot.axis)), dtype=torch.int64, device=device)

    def _by_device(self) -> list[list[str]]:
        """Slots that one grouped copy can fill: those on the device, those on the host."""
        devices: dict[torch.device, list[str]] = {}
        for name, buffer in self._buffers.items():
            devices.setdefault(buffer.device, []).append(name)
        return list(devices.values())

    def capacity(self, axis: str) -> int:
        """How many "tokens" or "requests" a batch may have."""
        capacity: int = getattr(self.size, _SIZE_FIELD[axis])
        return capacity

    @property
    def nbytes(self) -> int:
        """Device bytes that torch allocated for the slots (seq_lens_cpu is on the host)."""
        return sum(self._storage_bytes(on_host=False))

    @property
    def host_nbytes(self) -> int:
        """Bytes that torch allocated on the host, for seq_lens_cpu."""
        return sum(self._storage_bytes(on_host=True))

    def _storage_bytes(self, on_host: bool) -> Iterator[int]:
        for name, slot in self.slots.items():
            if slot.on_host is on_host:
                yield self._buffers[name].untyped_storage().nbytes()

    def load(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Copy a batch into the front of the buffers; the views of what was written, by slot.

        A slot that the batch leaves out is left alone and has no view, as SGLang does with an
        absent field (a text model has no mrope_positions). All checks come before the first
        write, whereas upstream's copy can stop halfway. RuntimeError if a slot does not fit or
        slots of one axis differ in length (upstream: torch's size mismatch, or silence when the
        source has length 1); ValueError for an empty batch, an unknown slot, a wrong shape or
        dtype.
        """
        lengths = self._lengths(batch)
        if not self._agree(lengths):
            self._check_fit(lengths)
            self._check_agreement(lengths)
        self._check_dtypes(batch)
        views = {
            name: self.slots[name].front(self._buffers[name], length)
            for name, length in lengths.items()
        }
        self._copy(batch, views)
        return views

    def holds(self, num_tokens: int, bs: int) -> bool:
        """Whether a batch of that many tokens and requests fits."""
        return num_tokens <= self.size.max_num_tokens and bs <= self.size.max_bs

    def load_or_live(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """`load` where the batch fits; else the batch itself on its slots' devices, uncopied there.

        What a benchmark that bypasses the scheduler needs instead of a buffer as large as the KV
        pool: the values are the same, and no buffer is written. RuntimeError for slots of one axis
        that differ in length, ValueError as `load`.
        """
        lengths = self._lengths(batch)
        sizes = {"tokens": 0, "requests": 0}
        for name, length in lengths.items():
            axis = self.slots[name].axis
            sizes[axis] = max(sizes[axis], length)
        if self.holds(sizes["tokens"], sizes["requests"]):
            return self.load(batch)
        self._check_agreement(lengths)
        self._check_dtypes(batch)
        return {name: tensor.to(self._buffers[name].device) for name, tensor in batch.items()}

    def try_load(self, num_tokens: int, bs: int) -> str:
        """Load a batch of zeros of that many tokens and requests: the refusal, "" if it fits."""
        lengths = {"tokens": num_tokens, "requests": bs}
        zeros = {
            name: torch.zeros(slot.shape(lengths[slot.axis]), dtype=torch.int64)
            for name, slot in self.slots.items()
        }
        try:
            self.load(zeros)
        except RuntimeError as refusal:
            return str(refusal)
        return ""

    def _copy(self, batch: Mapping[str, torch.Tensor], views: Mapping[str, torch.Tensor]) -> None:
        """Copy all slots of a device at once, as upstream does: half the cost of a small batch."""
        for group in self._together:
            names = [name for name in group if name in views]
            if names:
                torch._foreach_copy_([views[n] for n in names], [batch[n] for n in names])

    def _lengths(self, batch: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Tokens or requests of each slot; ValueError unless all are tensors of their shape."""
        if not batch:
            raise ValueError(f"batch has no slots: give at least one of {', '.join(self.slots)}")
        lengths = {}
        for name, tensor in batch.items():
            slot = self.slots.get(name)
            if slot is None or not isinstance(tensor, torch.Tensor):
                raise self._misfit(name, tensor)
            shape = tensor.shape
            if len(shape) != slot.dims or (slot.rows is not None and shape[0] != slot.rows):
                raise self._misfit(name, tensor)
            lengths[name] = shape[-1]
        return lengths

    def _misfit(self, name: str, tensor: Any) -> ValueError:
        """What is wrong with a slot's name, kind or shape."""
        slot = self.slots.get(name)
        if slot is None:
            return ValueError(f"batch slot {name!r}: unknown, known are {', '.join(self.slots)}")
        if not isinstance(tensor, torch.Tensor):
            return ValueError(f"batch slot {name!r}: give a tensor, not {_kind(tensor)}")
        wanted = f"({slot.axis},)" if slot.rows is None else f"({slot.rows}, {slot.axis})"
        return ValueError(f"batch slot {name!r}: shape {tuple(tensor.shape)}, must be {wanted}")

    def _agree(self, lengths: Mapping[str, int]) -> bool:
        """Whether each axis has one length, and it fits: what the checks below tell in words."""
        for axis, names in self._axes.items():
            given = {lengths[name] for name in names if name in lengths}
            if len(given) > 1 or (given and max(given) > self.capacity(axis)):
                return False
        return True

    def _check_fit(self, lengths: Mapping[str, int]) -> None:
        capacities = {axis: self.capacity(axis) for axis in _SIZE_FIELD}
        for name, length in lengths.items():
            axis = self.slots[name].axis
            capacity = capacities[axis]
            if length > capacity:
                raise RuntimeError(
                    f"{name}: batch of {length} {axis} does not fit the static buffer of "
                    f"{capacity} {axis} ({_SIZE_FIELD[axis]}); nothing was written"
                )

    def _check_agreement(self, lengths: Mapping[str, int]) -> None:
        first: dict[str, str] = {}
        for name, length in lengths.items():
            axis = self.slots[name].axis
            other = first.setdefault(axis, name)
            if length != lengths[other]:
                raise RuntimeError(
                    f"{name}: {length} {axis}, but {other} has {lengths[other]}; slots of one "
                    "axis must agree; nothing was written"
                )

    def _check_dtypes(self, batch: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in batch.items():
            if tensor.dtype != torch.int64:
                raise ValueError(
                    f"batch slot {name!r}: dtype {tensor.dtype}, must be torch.int64; "
                    "convert it with .long()"
                )


def _kind(value: Any) -> str:
    return type(value).__name__
