#!/usr/bin/env python3
"""Counts the bytes that PyTorch keeps of one block for backward, tensor by tensor, with saved_tensors_hooks.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0 transformers==5.24.0
    /tmp/torch/bin/python tests/saved_tensors.py >tests/data/saving/torch.csv

Models are those of tests/data/saving, in bf16: the classes of transformers, and LLaMA as torchtitan writes it. Tensors
are fake ones on "cuda": they have no memory and need no GPU, but what is saved is what the functions of a GPU save. A
block is what three blocks keep and two do not. A storage counts once and whole; parameters and the seeds of random
numbers, whose size is that of no tensor, do not count. For torchtitan also what its selective checkpointing stores, and
what a compiled block hands from forward to backward. tests/unit/test_saving_torch.c compares the table with the rules.
"""
import collections, csv, json, pathlib, re, sys

import torch, transformers
from torch import nn
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

BATCH, LENGTH = 2, 32
DATA = pathlib.Path(__file__).parent / "data" / "saving"
MODELS = ["llama", "qwen3", "gpt2", "gpt2-dropout", "gpt-neox", "gpt-neox-dropout", "opt", "t5"]
LAYERS = {"gpt2": "n_layer", "t5": "num_decoder_layers"}  # else num_hidden_layers

# "readers < makers [last dimension]" of a storage, and the word of layer_work.h for it: the first that matches.
WORDS = [
    (r"LayerNorm\.input|RmsNorm\.input", "norm.input"),
    (r"Pow\.self <", "norm.converted"),
    (r"^Mul\.self < Add", "norm.input"),
    (r"^Mul\.other < ToCopy", "norm.normed"),
    (r"NativeLayerNorm\.result1", "norm.mean"),
    (r"NativeLayerNorm\.result2|RmsNorm\.result1|Rsqrt\.result", "norm.statistic"),
    (r"\.key .*\.query .*\.value", "attention.queries attention.keys attention.values"),
    (r"Attention\.query", "attention.queries"),
    (r"Attention\.key", "attention.keys"),
    (r"Attention\.value", "attention.values"),
    (r"Attention\.log_?sum_?exp", "attention.statistic"),
    (r"Attention\.output", "attention.output"),
    (r"Attention\.attn_bias|Where\.condition", ""),
    (r"Softmax\.result|Bmm\.self .*\[%d\]|Dropout\.result1 .*\[%d\]" % (LENGTH, LENGTH), "attention.scores"),
    (r"Dropout\.result1", "dropout.mask"),
    (r"Bmm\.self", "attention.queries"),
    (r"Bmm\.mat2", "attention.repeated"),
    (r"Silu\.self", "activation.gate"),
    (r"Gelu\.self", "activation.input"),
    (r"^Mul\.self < Silu", "activation.gated"),
    (r"^Mul\.other < Mm", "activation.factor"),
    (r"[mM]m\.\w+ < (Bmm|ScaledDot)", "attention.output"),
    (r"[mM]m\.\w+ < (Gelu|Relu)|Relu\.result|[mM]m\.\w+ < Mul \[136\]", "activation.output"),
    (r"[mM]m\.\w+ < (Mul|NativeLayerNorm|FusedRmsNorm)", "norm.output"),
]
VIEWS = {"View", "UnsafeView", "Transpose", "Clone", "Expand", "ReshapeAlias", "Split", "T"}


class TitanBlock(nn.Module):
    """TransformerBlock of torchtitan: 9dec370 repeats keys and values, b5bcd76 asks attention to (enable_gqa)."""

    def __init__(self, config, repeats):
        super().__init__()
        h, f, self.head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.times, self.repeats = heads // kv_heads, repeats
        self.attention_norm, self.ffn_norm = nn.RMSNorm(h), nn.RMSNorm(h)
        self.wq, self.wo = nn.Linear(h, heads * self.head, bias=False), nn.Linear(heads * self.head, h, bias=False)
        self.wk, self.wv = (nn.Linear(h, kv_heads * self.head, bias=False) for _ in range(2))
        self.w1, self.w3, self.w2 = (nn.Linear(*size, bias=False) for size in ((h, f), (h, f), (f, h)))

    def rotate(self, x, turns):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

    def repeat(self, x):
        if not self.repeats:
            return x
        return x[:, :, :, None, :].expand(*x.shape[:3], self.times, self.head).flatten(2, 3)

    def forward(self, x, turns):
        n = self.attention_norm(x)
        q, k, v = (w(n).view(BATCH, LENGTH, -1, self.head) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotate(q, turns), self.rotate(k, turns)
        q, k, v = (y.transpose(1, 2) for y in (q, self.repeat(k), self.repeat(v)))
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not self.repeats)
        x = x + self.wo(o.transpose(1, 2).contiguous().view(BATCH, LENGTH, -1))
        n = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(n)) * self.w3(n))


class Titan(nn.Module):
    def __init__(self, config, layers, repeats):
        super().__init__()
        self.blocks = nn.ModuleList(TitanBlock(config, repeats) for _ in range(layers))
        self.input = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.turns = torch.ones(LENGTH, 1, config["head_dim"] // 2, dtype=torch.complex64)

    def forward(self, ids):
        x = self.input(ids)
        for block in self.blocks:
            x = block(x, self.turns)
        return x


class Transformers(nn.Module):
    def __init__(self, config, layers, attention):
        super().__init__()
        config = dict(config, **{LAYERS.get(config["model_type"], "num_hidden_layers"): layers})
        config = transformers.AutoConfig.for_model(**config)
        self.model = transformers.AutoModel.from_config(config, attn_implementation=attention)

    def forward(self, ids):
        more = {"decoder_input_ids": ids} if self.model.config.is_encoder_decoder else {}
        return self.model(input_ids=ids, use_cache=False, **more).last_hidden_state


def attention_of_gpus(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """The kernels that scaled_dot_product_attention takes on GPUs: flash, or, where scores have a bias, the efficient
    one. Left alone it takes neither for fake tensors."""
    assert enable_gqa or q.shape[1] == k.shape[1]
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale
    )[0]


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


def operator_of(node):
    return re.sub(r"Backward\d*$", "", node.name())


def maker_of(node):
    while operator_of(node) in VIEWS:
        node = node.next_functions[0][0]
    return operator_of(node)


def descriptions_of(root):
    """{storage: "readers < makers [last dimension]"} of the graph's saved tensors."""
    readers, makers, widths = (collections.defaultdict(set) for _ in range(3))
    seen, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo += [function for function, _ in node.next_functions]
        for name in (n for n in dir(node) if n.startswith("_saved_")):
            tensor = getattr(node, name)
            if isinstance(tensor, torch.Tensor):
                at = storage_of(tensor)
                readers[at].add(operator_of(node) + "." + name.removeprefix("_saved_"))
                makers[at] |= {maker_of(tensor.grad_fn)} if tensor.grad_fn is not None else set()
                widths[at].add(str(tensor.shape[-1] if tensor.dim() else 0))
    return {at: "%s < %s [%s]" % tuple(" ".join(sorted(s[at])) for s in (readers, makers, widths)) for at in readers}


def kept(model):
    """Counter of the bytes a token, by descriptions."""
    saved = {}

    def pack(tensor):
        saved[storage_of(tensor)] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(torch.zeros(BATCH, LENGTH, dtype=torch.long))
        descriptions = descriptions_of(output.grad_fn)
    assert set(saved) <= set(descriptions)
    held = {storage_of(p) for p in model.parameters()}
    counted = collections.Counter()
    for at, tensor in saved.items():
        seed = re.search(r"rng_state|\.unused|philox", descriptions[at])
        if at not in held and not seed:
            counted[descriptions[at]] += tensor.untyped_storage().nbytes()
    return counted


def rows_of(make):
    """(word, bytes a token, readers) of one block."""
    with FakeTensorMode(), torch.device("cuda"):
        more, fewer = kept(make(3)), kept(make(2))
    more.subtract(fewer)
    for text, count in sorted(more.items()):
        if count == 0:
            continue
        words = next((w for pattern, w in WORDS if re.search(pattern, text)), None)
        assert words is not None and count % (BATCH * LENGTH) == 0, (text, count)
        for word in words.split() or [""]:
            yield word, count // (BATCH * LENGTH) // max(1, len(words.split())), text.split(" < ")[0]


def titan_rows(config, tensors_of, device):
    """(word, bytes a token, reader) of the tensors that tensors_of() names."""
    with FakeTensorMode(), torch.device(device):
        turns = torch.ones(LENGTH, 1, config["head_dim"] // 2, dtype=torch.complex64)
        x = torch.zeros(BATCH, LENGTH, config["hidden_size"], requires_grad=True)
        for word, tensor, reader in tensors_of(TitanBlock(config, False), x, turns):
            yield word, tensor.untyped_storage().nbytes() // (BATCH * LENGTH), reader


def selective(block, x, turns):
    """What checkpoint() keeps under the policy of torchtitan's SelectiveAC: every second product, and attention. Its
    store is no saved tensor, so that hooks do not see it."""
    products, modes, aten = [], [], torch.ops.aten

    def policy(context, function, *_, **__):
        if function in (aten.mm.default, aten.linear.default):
            products.append(function)
            return CheckpointPolicy.MUST_SAVE if len(products) % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        flash = aten._scaled_dot_product_flash_attention.default
        return CheckpointPolicy.MUST_SAVE if function == flash else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts():
        modes.extend(create_selective_checkpoint_contexts(policy))
        return modes[-2:]

    checkpoint(block, x, turns, use_reentrant=False, context_fn=contexts)
    store = modes[0].storage
    words = ["attention.queries", "attention.values", "activation.gate", "product.output"]
    yield "layer.input", x, "checkpoint"
    for word, held in zip(words, (h for h in store[aten.mm.default].values() if hasattr(h, "val")), strict=True):
        yield word, held.val, "mm"
    attention = store[aten._scaled_dot_product_flash_attention.default][0]
    yield "attention.output", attention[0].val, "flash attention"
    yield "attention.statistic", attention[1].val, "flash attention"


def compiled(block, x, turns):
    """What torch.compile keeps: results of the forward graph that the partitioner of Inductor cuts off. A joint graph
    runs backward, which has no guard for a GPU that is not there, so the tensors are a processor's."""
    graphs, aten = [], torch.ops.aten
    views = (aten.view.default, aten.permute.default, aten.alias.default)

    def base(node):
        return base(node.args[0]) if node.target in views else node

    def keep(graph, _):
        graphs.append(graph.graph)
        return graph

    parameters = dict(block.named_parameters())
    aot_function(
        lambda p, *inputs: torch.func.functional_call(block, p, inputs),
        fw_compiler=keep,
        bw_compiler=keep,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )(parameters, x, turns)
    nodes = list(graphs[0].nodes)
    kept_nodes = next(n for n in nodes if n.op == "output").args[0][1:]
    products = [n for n in nodes if n.target == aten.mm.default]
    flash = next(n for n in nodes if n.target == aten._scaled_dot_product_flash_attention.default)
    words = {n: "norm.statistic" for n in nodes if n.target == aten.rsqrt.default}
    words |= dict(zip(flash.args[:3], ("attention.queries", "attention.keys", "attention.values")))
    words |= {n: ("attention.output", "attention.statistic")[n.args[1]] for n in flash.users if n.args[1] < 2}
    words |= {n: "norm.input" for n in nodes if n.op == "placeholder" and n.meta["val"].shape == x.shape}
    words |= {products[3]: "norm.input", products[4]: "activation.gate", products[5]: "activation.factor"}
    words |= {products[0].args[0]: "norm.output", products[4].args[0]: "norm.output"}
    words |= {products[6].args[0]: "activation.output"}
    words = {base(node): word for node, word in words.items()}
    seen = set()
    for node in kept_nodes:
        at, tensor = base(node), node.meta["val"]
        constant = at.op == "placeholder" and at not in words
        if at in seen or constant or tensor.dtype in (torch.uint64, torch.complex64):
            continue
        seen.add(at)
        yield words[at], tensor, at.name


def main():
    torch.set_default_dtype(torch.bfloat16)
    functional.scaled_dot_product_attention = attention_of_gpus
    transformers.logging.set_verbosity_error()
    transformers.masking_utils.find_packed_sequence_indices = lambda positions: None  # it looks at values
    print(f"# torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}: tests/saved_tensors.py")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["model", "code", "attention", "tensor", "bytes_per_token", "read_by"])
    configs = {name: json.loads((DATA / f"{name}.json").read_text()) for name in MODELS}
    for code, repeats in (("torchtitan 9dec370", True), ("torchtitan b5bcd76", False)):
        for row in rows_of(lambda layers: Titan(configs["llama"], layers, repeats)):
            out.writerow(["llama", code, "sdpa", *row])
    for way, device in ((selective, "cuda"), (compiled, "cpu")):
        for row in titan_rows(configs["llama"], way, device):
            out.writerow(["llama", f"torchtitan b5bcd76 {way.__name__}", "sdpa", *row])
    for name, config in configs.items():
        for attention in ("sdpa", "eager"):
            for row in rows_of(lambda layers: Transformers(config, layers, attention)):
                out.writerow([name, "transformers", attention, *row])


if __name__ == "__main__":
    main()
