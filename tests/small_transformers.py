"""Small random transformers in files: a Llama in GGUF, a BERT and a Llama in safetensors."""

import json

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH, HEADS, SHARED, MIDDLE, LAYERS = 32, 4, 2, 64, 2
EPSILON, BASE = 1e-5, 1e4
LINES = [f"the cat has {n} eggs and {n * n} figs" for n in range(1, 30)]


def write_llama(folder, architecture="llama", kind=GGMLQuantizationType.F32, change=None):
    """Write a language model with tokens for bytes, and a text; return its folder.

    ``kind`` is the type of the matrices of blocks. ``change`` takes the writer before it writes.
    """
    folder.mkdir(exist_ok=True)
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "the", "Ġthe"]
    kept = SHARED * WIDTH // HEADS
    shapes = {
        "attn_q": (WIDTH, WIDTH), "attn_k": (kept, WIDTH), "attn_v": (kept, WIDTH),
        "attn_output": (WIDTH, WIDTH), "ffn_gate": (MIDDLE, WIDTH), "ffn_up": (MIDDLE, WIDTH),
        "ffn_down": (WIDTH, MIDDLE),
    }  # fmt: skip
    rng = np.random.default_rng(1)
    writer = GGUFWriter(folder / "model.gguf", architecture)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_merges(["t h", "th e", "Ġ the"])
    embedding = rng.normal(size=(len(words), WIDTH)).astype("f4")
    eight = GGMLQuantizationType.Q8_0
    writer.add_tensor("token_embd.weight", quantize(embedding, eight), raw_dtype=eight)
    writer.add_tensor("output_norm.weight", rng.uniform(1, 2, WIDTH).astype("f4"))
    for block in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            gain = rng.uniform(1, 2, WIDTH).astype("f4")
            writer.add_tensor(f"blk.{block}.{name}.weight", gain)
        for name, shape in shapes.items():
            drawn = rng.normal(size=shape).astype("f4") / np.float32(shape[1] ** 0.5)
            full = f"blk.{block}.{name}.weight"
            if kind == GGMLQuantizationType.F32:
                writer.add_tensor(full, drawn)
            else:
                writer.add_tensor(full, quantize(drawn, kind), raw_dtype=kind)
    if change:
        change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / "a.txt").write_text("\n".join(LINES))
    (folder / "b.txt").write_text("a dog\nand a hen\n")
    return folder


def write_bert(folder):
    """Write an encoder with tokens for characters, and a text; return its folder."""
    folder.mkdir()
    words = ["[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[SEP]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    ends = [("[CLS]", 0), ("[SEP]", 1)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, ends)
    tokenizer.enable_padding(length=60)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "bert", "hidden_act": "gelu", "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "layer_norm_eps": 1e-12, "max_position_embeddings": 40,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {
        "embeddings.word_embeddings": (len(words), WIDTH),
        "embeddings.position_embeddings": (40, WIDTH),
        "embeddings.token_type_embeddings": (2, WIDTH),
        "embeddings.LayerNorm": (WIDTH,),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        shapes |= {at + part: (WIDTH, WIDTH) for part in [*parts, "attention.output.dense"]}
        shapes |= {at + "intermediate.dense": (MIDDLE, WIDTH), at + "output.dense": (WIDTH, MIDDLE)}
        shapes |= {
            at + part: (WIDTH,) for part in ("attention.output.LayerNorm", "output.LayerNorm")
        }
    rng, tensors = np.random.default_rng(2), {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = rng.normal(size=shape).astype("f4") / 4
        if name.startswith("encoder") or len(shape) == 1:
            tensors[f"{name}.bias"] = rng.normal(size=shape[0]).astype("f4") / 4
    save_file(tensors, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "a.txt").write_text("\n".join(LINES))
    return folder


def write_shards(folder, change=None):
    """Write a Llama in two shards, in the order of rows of transformers; return its folder.

    ``change`` takes the tensors and the settings before they are written.
    """
    folder.mkdir()
    words = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({word: k for k, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": SHARED, "rms_norm_eps": EPSILON,
        "rope_theta": BASE, "max_position_embeddings": 64, "eos_token_id": 0,
    }  # fmt: skip
    kept = SHARED * WIDTH // HEADS
    shapes = {
        "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (kept, WIDTH),
        "self_attn.v_proj": (kept, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
        "mlp.gate_proj": (MIDDLE, WIDTH), "mlp.up_proj": (MIDDLE, WIDTH),
        "mlp.down_proj": (WIDTH, MIDDLE), "input_layernorm": (WIDTH,),
        "post_attention_layernorm": (WIDTH,),
    }  # fmt: skip
    rng = np.random.default_rng(3)
    tensors = {"model.embed_tokens.weight": rng.normal(size=(len(words), WIDTH)).astype("f4")}
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            drawn = (
                rng.normal(size=shape) / shape[-1] ** 0.5
                if len(shape) == 2
                else (rng.uniform(1, 2, shape))
            )
            tensors[f"model.layers.{layer}.{name}.weight"] = drawn.astype("f4")
    tensors["model.norm.weight"] = rng.uniform(1, 2, WIDTH).astype("f4")
    tensors["lm_head.weight"] = rng.normal(size=(len(words), WIDTH)).astype("f4")
    if change:
        change(tensors, config)
    (folder / "config.json").write_text(json.dumps(config))
    places = {}
    for k in range(2):
        part = dict(list(tensors.items())[k::2])
        save_file(part, folder / f"model-{k}.safetensors")
        places |= dict.fromkeys(part, f"model-{k}.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    return folder
