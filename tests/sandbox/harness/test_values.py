"""Values that cross between processes, and the contents they are given."""

from __future__ import annotations

import json
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from warpsmith_harness import values

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [*FLOATS, torch.complex64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool]


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


@dataclass
class Record:
    x: torch.Tensor
    name: str


class LateTuple(tuple):
    def __iter__(self):
        return iter((torch.ones(1),))


class LateList(list):
    __iter__ = LateTuple.__iter__


class LateDict(dict):
    def items(self):
        return [("x", torch.ones(1))]


@dataclass
class LateRecord(Record):
    @property
    def x(self) -> torch.Tensor:
        return torch.ones(1)

    @x.setter
    def x(self, value: torch.Tensor) -> None:
        pass


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.complex_numbers(allow_nan=False, allow_infinity=False),
    st.sampled_from([torch.float32, torch.int64, torch.device("cpu"), torch.strided]),
    st.builds(lambda n: torch.full((2,), float(n)), st.integers(0, 9)),
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


class TestStructure:
    @settings(max_examples=150, deadline=None)
    @given(NESTED)
    def test_rebuild_undoes_flatten_through_json(self, value) -> None:
        tensors, structure = values.flatten(value)
        again = values.rebuild(json.loads(json.dumps(structure)), tensors)
        _, structure_again = values.flatten(again)
        assert structure_again == structure
        assert values.same_structure(structure, structure_again) == ""
        assert len(values.names(structure, "x")) == len(tensors)

    def test_records(self) -> None:
        value = {"pair": Pair(torch.ones(2), 3), "record": Record(torch.zeros(1), "r"), "size": torch.Size([2, 3])}
        tensors, structure = values.flatten(value)
        again = values.rebuild(structure, tensors)
        assert isinstance(again["pair"], Pair)
        assert isinstance(again["record"], Record)
        assert tuple(again["size"]) == (2, 3)
        assert values.names(structure, "batch") == ["batch['pair'][0]", "batch['record']['x']"]

    def test_mappings_are_dicts(self) -> None:
        plain = values.flatten({"a": torch.ones(1)})[1]
        for other in (OrderedDict, UserDict):
            assert values.same_structure(plain, values.flatten(other(a=torch.ones(1)))[1]) == ""

    @pytest.mark.parametrize("late", [LateTuple([0]), LateList([0]), LateDict(x=0), UserDict(LateDict(x=0))])
    def test_what_computes_when_it_is_asked_is_not_asked(self, late) -> None:
        assert values.flatten(late)[0] == []
        assert "tensor" not in json.dumps(values.flatten(values.map_tensors(late, torch.neg))[1])

    def test_a_property_is_not_asked_either(self) -> None:
        with pytest.raises(values.Unsupported):
            values.flatten(LateRecord(torch.ones(1), "late"))

    def test_records_with_slots(self) -> None:
        slotted = dataclass(slots=True)(type("Slotted", (), {"__annotations__": {"x": torch.Tensor}}))
        assert len(values.flatten(slotted(torch.ones(1)))[0]) == 1

    @pytest.mark.parametrize("value", [object(), {(1, 2): 3}, iter([]), {"a": [object()]}])
    def test_unsupported(self, value) -> None:
        with pytest.raises(values.Unsupported):
            values.flatten(value)

    @pytest.mark.parametrize(
        ("expected", "got", "reason"),
        [
            (torch.ones(1), None, "output must be a tensor, and is a plain"),
            ((torch.ones(1),), [torch.ones(1)], "output must be a tuple, and is a list"),
            ((1, 2), (1,), "output must have 2 items, and has 1"),
            ({"a": 1}, {"b": 1}, "output must have the keys ['a'], and has ['b']"),
            ({"a": (1, None)}, {"a": (1, 2)}, "output['a'][1] must be None, and is 2"),
            ([1], [True], "output[0] must be 1, and is True"),
            ((0.5,), (0.51,), "output[0] must be 0.5, and is 0.51"),
        ],
    )
    def test_differences(self, expected, got, reason) -> None:
        assert values.same_structure(values.flatten(expected)[1], values.flatten(got)[1]) == reason

    def test_floats_agree_within_rounding(self) -> None:
        one, other = (values.flatten((number, float("nan")))[1] for number in (0.1 + 0.2, 0.3))
        assert values.same_structure(one, other) == ""

    def test_map_tensors_keeps_everything_else(self) -> None:
        value = (Pair(torch.ones(2), 3), [Record(torch.ones(1), "r")], {"k": None})
        mapped = values.map_tensors(value, lambda tensor: tensor + 1)
        assert mapped[0].first.tolist() == [2.0, 2.0]
        assert mapped[1][0].x.tolist() == [2.0]
        assert (mapped[0].second, mapped[1][0].name, mapped[2]) == (3, "r", {"k": None})


def layouts() -> dict[str, torch.Tensor]:
    base = torch.randn(4, 6, 8)
    return {
        "contiguous": base,
        "transposed": base.transpose(0, 2),
        "strided": base[::2, :, ::3],
        "offset": base.flatten()[5:],
        "expanded": torch.randn(1, 6).expand(4, 6),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "scalar": torch.randn(()),
        "empty": torch.randn(0, 3),
    }


class TestContents:
    @pytest.mark.parametrize("name", layouts())
    def test_clone_keeps_strides_and_owns_its_memory(self, name) -> None:
        tensor = layouts()[name]
        clone = values.clone_like(tensor)
        assert clone.stride() == tensor.stride()
        assert torch.equal(clone, tensor)
        assert clone.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr() or not tensor.numel()

    @pytest.mark.parametrize("name", layouts())
    def test_fresh_keeps_strides_and_changes_values(self, name) -> None:
        tensor = layouts()[name]
        before = tensor.clone()
        renewed = values.fresh(tensor)
        assert renewed.stride() == tensor.stride()
        assert torch.equal(tensor, before)
        assert not tensor.numel() or not torch.equal(renewed, tensor)

    def test_fresh_draws_few_elements_until_they_are_others(self) -> None:
        one_hot = torch.zeros(100)
        one_hot[50] = 1
        column = torch.randn(2, 40)[:, 0]
        few = (torch.tensor([1.0, 2.0]), torch.tensor([2, 1]), torch.tensor(3.0), torch.tensor([1.0, -torch.inf]))
        for tensor in (*few, one_hot, one_hot.int(), column):
            assert not any(torch.equal(values.fresh(tensor), tensor) for _ in range(200))

    @pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64])
    @pytest.mark.parametrize("constant", [0.0, 1.0, -3.0])
    def test_fresh_moves_constants(self, dtype, constant) -> None:
        renewed = values.fresh(torch.full((64,), constant, dtype=dtype))
        assert renewed.dtype == dtype
        plain = torch.view_as_real(renewed) if dtype.is_complex else renewed
        assert plain.unique().numel() > 8
        assert renewed.abs().max() <= max(abs(constant), 1.0)

    def test_fresh_keeps_range_and_infinities(self) -> None:
        mask = torch.full((8, 8), -torch.inf).triu(1) + torch.rand(8, 8)
        renewed = values.fresh(mask)
        assert torch.equal(torch.isinf(renewed), torch.isinf(mask))
        finite = ~torch.isinf(mask)
        assert renewed[finite].min() >= mask[finite].min()
        assert renewed[finite].max() <= mask[finite].max()

    def test_fresh_shuffles_indices_and_keeps_offsets_and_masks(self) -> None:
        indices = torch.randperm(1000)
        assert torch.equal(values.fresh(indices).sort().values, indices.sort().values)
        assert not torch.equal(values.fresh(indices), indices)
        offsets = torch.tensor([0, 3, 3, 9])
        assert torch.equal(values.fresh(offsets), offsets)
        mask = torch.rand(50) < 0.5
        assert torch.equal(values.fresh(mask), mask)

    def test_describe(self) -> None:
        assert values.describe("x", torch.zeros(2, 3)) == "x: float32 [2, 3] contiguous"
        assert values.describe("y", torch.zeros(2, 3).t()) == "y: float32 [3, 2] strides [1, 3]"


class Everything(nn.Module):
    """Parameters and buffers of every kind that must, or must not, be randomised."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.lin = nn.Linear(16, 16)
        self.gate = nn.Parameter(torch.zeros(16))
        self.zero_matrix = nn.Parameter(torch.zeros(16, 16))
        self.tied = self.lin.weight
        self.register_buffer("causal", torch.ones(8, 8).tril())
        self.register_buffer("additive", torch.full((8, 8), -torch.inf).triu(1))
        self.register_buffer("table", torch.arange(8.0), persistent=False)
        self.register_buffer("positions", torch.arange(8))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.bool))


class TestRandomiseState:
    def test_everything_that_training_would_change_changes(self) -> None:
        module = Everything()
        before = {name: value.clone() for name, value in [*module.named_parameters(), *module.named_buffers()]}
        values.randomise_state(module)
        after = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        kept = {"causal", "additive", "table", "positions", "seen", "norm.num_batches_tracked"}
        assert {name for name in before if torch.equal(before[name], after[name])} == kept

    def test_nothing_stays_at_zero_or_one(self) -> None:
        module = Everything()
        values.randomise_state(module)
        for name in ("norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "gate", "zero_matrix"):
            value = module.get_parameter(name) if "running" not in name else module.get_buffer(name)
            assert not ((value == 0) | (value == 1)).any(), name
        assert (module.norm.running_var > 0).all()

    def test_a_weight_that_began_as_one_takes_both_signs_and_a_variance_never_does(self) -> None:
        module = nn.BatchNorm1d(256)
        values.randomise_state(module)
        assert (module.weight > 0).any()
        assert (module.weight < 0).any()
        assert (module.running_var > 0).all()

    def test_in_place_and_ties_hold(self) -> None:
        module = Everything()
        weight, version = module.lin.weight, module.lin.weight._version
        values.randomise_state(module)
        assert module.lin.weight is weight is module.tied
        assert weight._version > version

    def test_scale_is_kept(self) -> None:
        module = nn.Linear(256, 256)
        before = module.weight.std().item()
        for _ in range(3):
            values.randomise_state(module)
        assert module.weight.std().item() == pytest.approx(before, rel=0.1)

    def test_strength(self) -> None:
        module = nn.LayerNorm(256)
        values.randomise_state(module, 0.0)
        assert torch.equal(module.weight, torch.ones(256))
        values.randomise_state(module, 0.1)
        assert (module.weight - 1).abs().max() <= 0.051
        assert not torch.equal(module.weight, torch.ones(256))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
    def test_narrow_dtypes(self, dtype) -> None:
        module = nn.Module()
        module.weight = nn.Parameter(torch.ones(64).to(dtype), requires_grad=False)
        values.randomise_state(module)
        assert module.weight.dtype == dtype
        assert module.weight.float().unique().numel() > 4


class TestChecksum:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("size", [0, 1, 3, 8, 1000])
    def test_equal_contents_are_equal(self, dtype, size) -> None:
        tensor = (torch.rand(size) * 100).to(dtype)
        assert values.checksum(tensor) == values.checksum(tensor.clone())

    @pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bool])
    def test_order_and_single_elements_matter(self, dtype) -> None:
        tensor = (torch.randperm(100) + 1).to(dtype)
        swapped, changed = tensor.clone(), tensor.clone()
        swapped[[0, 57]] = tensor[[57, 0]]
        changed[99] = 0
        assert len({values.checksum(t) for t in (tensor, swapped, changed)}) == 3

    def test_layout_does_not_matter_and_contents_do(self) -> None:
        tensor = torch.randn(30, 40)
        assert values.checksum(tensor.t()) == values.checksum(tensor.t().contiguous())
        assert values.checksum(tensor.t()) != values.checksum(tensor)
        assert values.checksum(tensor.flatten()[1:]) == values.checksum(tensor.flatten()[1:].clone())

    def test_nan_sign_and_length(self) -> None:
        nan = torch.tensor([float("nan")])
        assert values.checksum(nan) == values.checksum(nan.clone())
        assert values.checksum(torch.tensor([0.0])) != values.checksum(torch.tensor([-0.0]))
        assert values.checksum(torch.zeros(3)) != values.checksum(torch.zeros(4))

    def test_conjugates_and_many_chunks(self) -> None:
        numbers = torch.randn(1 << 12, dtype=torch.complex64)
        assert values.checksum(numbers.conj()) == values.checksum(numbers.conj().resolve_conj())
        large = torch.zeros((1 << 22) + 5)
        first = values.checksum(large)
        large[-1] = 1
        assert values.checksum(large) != first


def test_allocations_are_poisoned() -> None:
    with values.poisoned_allocations():
        floats, integers = torch.empty(5), torch.empty_like(torch.zeros(3, dtype=torch.int64))
        assert not torch.isnan(torch.zeros(5)).any()
    assert torch.isnan(floats).all()
    assert (integers == torch.iinfo(torch.int64).max).all()
    assert not torch.are_deterministic_algorithms_enabled()
