"""What of torch is allocation, a view or a question about a tensor, and therefore no computation."""

from __future__ import annotations

ALLOCATIONS = frozenset(
    {
        "torch.empty", "torch.empty_like", "torch.empty_strided", "torch.empty_permuted", "torch.zeros", "torch.zeros_like",
        "torch.ones", "torch.ones_like", "torch.full", "torch.full_like",
    }
)  # fmt: skip

VIEWS = frozenset(
    {
        "torch.transpose", "torch.permute", "torch.unsqueeze", "torch.squeeze", "torch.flatten", "torch.reshape", "torch.narrow",
        "torch.select", "torch.split", "torch.chunk", "torch.unbind", "torch.tensor_split", "torch.movedim", "torch.moveaxis",
        "torch.swapaxes", "torch.swapdims", "torch.t", "torch.as_strided", "torch.broadcast_to", "torch.broadcast_tensors",
        "torch.unflatten", "torch.detach", "torch.diagonal", "torch.atleast_1d", "torch.atleast_2d", "torch.view_as_real",
        "torch.view_as_complex",
    }
)  # fmt: skip

QUESTIONS = frozenset(
    {
        "torch.is_tensor", "torch.is_floating_point", "torch.is_complex", "torch.is_grad_enabled", "torch.numel",
        "torch.is_inference_mode_enabled", "torch.is_autocast_enabled", "torch.finfo", "torch.iinfo", "torch.device",
        "torch.Size", "torch.dtype", "torch.promote_types", "torch.result_type", "torch.can_cast", "torch.broadcast_shapes",
        "torch.get_default_dtype", "torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.set_grad_enabled",
        "torch.cuda.device", "torch.cuda.current_device", "torch.get_num_threads", "torch.cuda.is_available",
        "torch.cuda.device_count", "torch.cuda.get_device_properties", "torch.cuda.get_device_capability",
        "torch.cuda.get_device_name", "torch.cuda.synchronize", "torch._assert", "torch._check",
        "torch.autograd.function.once_differentiable",
    }
)  # fmt: skip

STREAMS = frozenset(
    {
        "torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.StreamContext", "torch.cuda.current_stream",
        "torch.cuda.default_stream", "torch.cuda.Event", "torch.Stream", "torch.Event",
    }
)  # fmt: skip
"""What makes or gives streams and events: their methods order work, and compute nothing."""

VIEW_METHODS = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "transpose", "permute", "unsqueeze", "squeeze", "flatten", "unflatten",
        "expand", "expand_as", "broadcast_to", "narrow", "select", "split", "split_with_sizes", "chunk", "unbind", "tensor_split",
        "movedim", "moveaxis", "swapaxes", "swapdims", "t", "as_strided", "unfold", "diagonal", "detach", "requires_grad_",
        "zero_", "contiguous", "data", "T", "mT", "grad",
    }
)  # fmt: skip
"""Methods and attributes whose result shares the tensor's memory. ``reshape``, ``flatten`` and ``contiguous`` copy where they
must (the last is labelled); ``zero_`` clears memory that a kernel accumulates into."""

MULTIPLE = frozenset({"split", "split_with_sizes", "chunk", "unbind", "tensor_split", "broadcast_tensors"})
"""Views that come several at once."""

NEW_METHODS = frozenset({"new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"})

QUESTION_METHODS = frozenset(
    {
        "size", "stride", "numel", "nelement", "dim", "ndimension", "element_size", "get_device", "is_contiguous", "data_ptr",
        "is_floating_point", "is_complex", "is_signed", "storage_offset", "has_names", "is_pinned", "is_inference",
        "shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_cpu", "requires_grad", "itemsize", "nbytes", "is_leaf",
        "is_sparse", "is_quantized", "is_meta", "grad_fn", "_version", "__len__", "record_stream",
    }
)  # fmt: skip
"""Methods and attributes that tell something about a tensor without looking at its numbers."""

ADDRESSES = frozenset({"data_ptr", "_version"})
"""Those that tell one tensor from another: of an input they are the key of a cache of results."""

CONTAINER_METHODS = frozenset(
    {
        "append",
        "extend",
        "insert",
        "pop",
        "get",
        "items",
        "keys",
        "values",
        "update",
        "setdefault",
        "clear",
        "remove",
        "add",
    }
)
"""Methods of lists and dictionaries. ``add`` is left to tensors where the receiver may be one."""

MODULE_METHODS = frozenset(
    {
        "__init__", "parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules",
        "named_modules", "state_dict", "load_state_dict", "get_parameter", "get_buffer", "get_submodule", "register_buffer",
        "register_parameter", "register_module", "add_module", "train", "eval", "requires_grad_", "extra_repr", "keys", "values",
        "items", "append", "extend", "insert", "zero_grad", "reset_parameters",
    }
)  # fmt: skip
"""Methods of ``torch.nn.Module`` that compute nothing on the inputs."""

MODULE_SCALARS = frozenset(
    {
        "training", "in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
        "groups", "output_padding", "padding_mode", "transposed", "eps", "normalized_shape", "elementwise_affine", "num_features",
        "momentum", "affine", "track_running_stats", "num_groups", "num_channels", "p", "inplace", "negative_slope", "alpha",
        "beta", "threshold", "dim", "embed_dim", "num_heads", "head_dim", "kdim", "vdim", "dropout", "batch_first",
        "hidden_size", "input_size", "num_layers", "bidirectional", "num_embeddings", "embedding_dim", "padding_idx",
        "approximate", "ceil_mode", "count_include_pad", "output_size", "scale_factor", "mode", "align_corners", "upscale_factor",
        "lambd", "min_val", "max_val", "value", "start_dim", "end_dim", "return_indices", "divisor_override", "add_bias_kv",
    }
)  # fmt: skip
"""Attributes of torch's modules that are plain numbers; any other may be a parameter."""

CONTAINERS = frozenset(
    {
        "torch.nn.ModuleList()", "torch.nn.ModuleDict()", "torch.nn.Sequential()", "torch.nn.ParameterList()",
        "torch.nn.ParameterDict()",
    }
)  # fmt: skip
"""Modules that are what they hold."""

FREE_MODULES = frozenset({"torch.nn.Identity()"})

CONTEXT_METHODS = frozenset(
    {"save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads", "save_for_forward"}
)
"""Methods of the context of a ``torch.autograd.Function``."""
