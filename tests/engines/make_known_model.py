"""make_known_model.py OUTDIR: writes a tiny Llama whose every answer is known beforehand.

Attention and MLP add nothing; the output layer maps each token to its successor. A chat answer is
`<think>` + 5 words + `</think>` + 12 words + end of text = 20 tokens. With `ignore_eos`, or for a plain
completion, the model walks a cycle of ASCII words and never ends by itself.

Writes OUTDIR/hf (for Dynamo, and with its weights for vLLM), OUTDIR/known.gguf (for llama.cpp) and
OUTDIR/expected.json. Needs no torch: runs in the engines' environment within two seconds.
"""

import json
import sys
import sysconfig
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN = 128
LAYERS = 2
CONTEXT_TOKENS = 4096
VOCABULARY = 2048  # Dynamo's mocker draws token ids 1000 to 1999
SHARPNESS = 40.0  # logit of the successor over all others: sampling cannot miss it
CONTROL = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
BOS, EOS = 1, 2
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def main() -> None:
    out = Path(sys.argv[1])
    hf = out / "hf"
    hf.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    think, answer, successor = make_chain(tokenizer)
    write_hf(hf, tokenizer, successor)
    write_gguf(out / "known.gguf", tokenizer, successor)
    expected = {
        "think": tokenizer.decode(think),
        "answer": tokenizer.decode(answer),
        "completion_tokens": len(think) + len(answer) + 3,  # <think>, </think>, end of text
    }
    (out / "expected.json").write_text(json.dumps(expected))


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE of the standard library's own text: nothing to download."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:200]
    tokenizer.train_from_iterator((path.read_text("utf-8", errors="ignore") for path in sources), trainer)
    # Not special: their text must reach the client, as a reasoning model's does.
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in ("<think>", "</think>")])
    return tokenizer


def make_chain(tokenizer: Tokenizer) -> tuple[list[int], list[int], np.ndarray]:
    """The words of the thought and of the answer, and each token's successor."""
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    # "Ġ" is how byte-level BPE writes a leading space: whole words of ASCII letters only
    words = [i for i, t in enumerate(tokens) if t[0] == "Ġ" and len(t) > 2 and t[1:].isascii() and t[1:].isalpha()]
    think, answer, cycle = words[:5], words[5:17], words[17:]
    successor = np.array([cycle[i % len(cycle)] for i in range(len(tokens))])
    successor[cycle] = cycle[1:] + cycle[:1]
    prompt_end = tokenizer.encode("\n", add_special_tokens=False).ids[-1]
    chain = [
        prompt_end,
        tokenizer.token_to_id("<think>"),
        *think,
        tokenizer.token_to_id("</think>"),
        *answer,
        EOS,
    ]
    successor[chain[:-1]] = chain[1:]
    successor[EOS] = cycle[0]  # with ignore_eos it goes on
    return think, answer, successor


def write_hf(hf: Path, tokenizer: Tokenizer, successor: np.ndarray) -> None:
    """A model folder; Dynamo's mocker reads all of it but the weights."""
    special = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HIDDEN // 32,
        "num_key_value_heads": HIDDEN // 32,
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "dtype": "float32",
        **special,
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": CONTEXT_TOKENS,
        "chat_template": CHAT_TEMPLATE,
    }
    tokenizer.save(str(hf / "tokenizer.json"))
    (hf / "config.json").write_text(json.dumps(config))
    (hf / "generation_config.json").write_text(json.dumps(special))
    (hf / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (hf / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    tensors = {hf_name(name): np.ascontiguousarray(tensor) for name, tensor in weights(successor).items()}
    save_file(tensors, hf / "model.safetensors", metadata={"format": "pt"})


def hf_name(gguf_name: str) -> str:
    """`blk.0.attn_q.weight` → `model.layers.0.self_attn.q_proj.weight`."""
    layer, _, rest = gguf_name.removeprefix("blk.").partition(".")
    if layer.isdigit():
        return f"model.layers.{layer}.{HF_NAMES[rest.removesuffix('.weight')]}.weight"
    return {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[layer] + ".weight"


HF_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_gguf(path: Path, tokenizer: Tokenizer, successor: np.ndarray) -> None:
    tokens = [tokenizer.id_to_token(i) for i in range(len(successor))]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("known")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HIDDEN // 32)
    writer.add_head_count_kv(HIDDEN // 32)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(32)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([token_type(token) for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_pad_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in weights(successor).items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def token_type(token: str) -> gguf.TokenType:
    if token in CONTROL:
        return gguf.TokenType.CONTROL
    return gguf.TokenType.USER_DEFINED if token in ("<think>", "</think>") else gguf.TokenType.NORMAL


def weights(successor: np.ndarray) -> dict[str, np.ndarray]:
    """Random unit embeddings; row t of the output layer is the sum of the embeddings that lead to t."""
    random = np.random.default_rng(1)
    embeddings = random.standard_normal((len(successor), HIDDEN)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    output = np.zeros_like(embeddings)
    np.add.at(output, successor, embeddings)
    ones = np.ones(HIDDEN, np.float32)
    square = (HIDDEN, HIDDEN)
    tensors = {
        "token_embd.weight": embeddings,
        "output_norm.weight": ones,
        "output.weight": output * (SHARPNESS / HIDDEN**0.5),
    }
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = ones
        for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
            tensors[f"blk.{layer}.{name}.weight"] = (random.standard_normal(square) * 0.02).astype(np.float32)
        for name in ("attn_output", "ffn_down"):
            tensors[f"blk.{layer}.{name}.weight"] = np.zeros(square, np.float32)  # the layer adds nothing
    return tensors


if __name__ == "__main__":
    main()
