"""Models of public libraries, from their configurations, each trained for two steps (or run): unmodified library code.

    python models.py NAME [MORE NAMES]      `python models.py --list` lists the names
"""

import sys

import torch
from torch import nn

STEPS = 2
known = {}


def model(function):
    known[function.__name__] = function
    return function


def train(net, inputs, loss=None, autocast=None, optimizer=torch.optim.AdamW, steps=STEPS):
    net = net.cuda().train()
    optimizer = optimizer(net.parameters(), lr=1e-4)
    for _ in range(steps):
        with torch.autocast("cuda", autocast or torch.bfloat16, enabled=autocast is not None):
            given = inputs()
            out = net(**given) if isinstance(given, dict) else net(given)
            out = getattr(out, "loss", out) if loss is None else loss(out)
        value = out if out.ndim == 0 else out.float().square().mean()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()


def images(n=8, size=224, last=False):
    def make():
        x = torch.randn(n, 3, size, size, device="cuda")
        return x.contiguous(memory_format=torch.channels_last) if last else x

    return make


def tokens(vocabulary, n=4, length=128, labels=True):
    def make():
        ids = torch.randint(5, vocabulary, (n, length), device="cuda")
        return {"input_ids": ids, "labels": ids} if labels else {"input_ids": ids}

    return make


def torchvision_model(name, size=224, last=False, autocast=None, n=8, **options):
    def build():
        import torchvision

        net = getattr(torchvision.models, name)(weights=None, **options)
        if last:
            net = net.to(memory_format=torch.channels_last)
        train(net, images(n, size, last), autocast=autocast, optimizer=torch.optim.SGD, loss=lambda o: o[0] if isinstance(o, tuple) else o)

    known[f"tv_{name}{'_last' if last else ''}{'_amp' if autocast else ''}"] = build


for name in ("resnet18", "resnet50", "vgg16", "densenet121", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "swin_t", "vit_b_16", "regnet_y_400mf", "alexnet", "googlenet", "maxvit_t", "shufflenet_v2_x1_0"):
    torchvision_model(name, **({"aux_logits": False} if name == "googlenet" else {}))
torchvision_model("resnet50", last=True, autocast=torch.float16)
torchvision_model("resnet18", autocast=torch.bfloat16)
torchvision_model("convnext_tiny", last=True, autocast=torch.bfloat16)


@model
def tv_deeplab():
    import torchvision

    train(torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None), images(2, 256), loss=lambda o: o["out"])


@model
def tv_fasterrcnn():
    import torchvision

    net = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).cuda().eval()
    with torch.no_grad():
        net([torch.randn(3, 240, 320, device="cuda")])


@model
def tv_video():
    import torchvision

    train(torchvision.models.video.r3d_18(weights=None), lambda: torch.randn(1, 3, 8, 64, 64, device="cuda"))


def transformer(name, config, length=128, n=4, autocast=None, checkpoint=False, dtype=None, kind="AutoModelForCausalLM", more=None, **values):
    def build():
        import transformers

        made = getattr(transformers, config)(**values)
        net = getattr(transformers, kind).from_config(made) if kind.startswith("Auto") else getattr(transformers, kind)(made)
        if dtype:
            net = net.to(dtype)
        if checkpoint:
            net.gradient_checkpointing_enable()
        train(net, more or tokens(made.vocab_size, n, length), autocast=autocast)

    known[f"hf_{name}"] = build


SMALL = dict(vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4)
transformer("llama", "LlamaConfig", num_key_value_heads=2, **SMALL)
transformer("llama_bf16", "LlamaConfig", dtype=torch.bfloat16, num_key_value_heads=2, **SMALL)
transformer("llama_amp", "LlamaConfig", autocast=torch.bfloat16, **SMALL)
transformer("llama_checkpointed", "LlamaConfig", checkpoint=True, **SMALL)
transformer("llama_eager", "LlamaConfig", attn_implementation="eager", **SMALL)
transformer("mistral", "MistralConfig", num_key_value_heads=2, sliding_window=64, **SMALL)
transformer("qwen2", "Qwen2Config", num_key_value_heads=2, **SMALL)
transformer("qwen3", "Qwen3Config", num_key_value_heads=2, head_dim=64, **SMALL)
transformer("gemma2", "Gemma2Config", num_key_value_heads=2, head_dim=64, **SMALL)
transformer("phi3", "Phi3Config", pad_token_id=0, **SMALL)
transformer("mixtral", "MixtralConfig", num_local_experts=4, num_key_value_heads=2, **SMALL)
transformer("gpt2", "GPT2Config", vocab_size=2000, n_embd=256, n_layer=2, n_head=4)
transformer("gpt_neox", "GPTNeoXConfig", **SMALL)
transformer("opt", "OPTConfig", vocab_size=2000, hidden_size=256, ffn_dim=512, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=256)
transformer("bloom", "BloomConfig", vocab_size=2000, hidden_size=256, n_layer=2, n_head=4)
transformer("mamba", "MambaConfig", vocab_size=2000, hidden_size=128, num_hidden_layers=2, length=32)
transformer("bert", "BertConfig", kind="BertForMaskedLM", **SMALL)
transformer("roberta", "RobertaConfig", kind="RobertaForMaskedLM", **SMALL)
transformer("electra", "ElectraConfig", kind="ElectraForMaskedLM", **SMALL)
transformer("deberta", "DebertaV2Config", kind="DebertaV2ForMaskedLM", **SMALL)
transformer("modernbert", "ModernBertConfig", kind="ModernBertForMaskedLM", pad_token_id=0, eos_token_id=1, bos_token_id=2, cls_token_id=3, sep_token_id=4, **SMALL)
transformer("t5", "T5Config", kind="T5ForConditionalGeneration", vocab_size=2000, d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4, decoder_start_token_id=0)
transformer("bart", "BartConfig", kind="BartForConditionalGeneration", vocab_size=2000, d_model=256, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512)


@model
def hf_whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    net = WhisperForConditionalGeneration(WhisperConfig(vocab_size=2000, d_model=256, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1))
    train(net, lambda: {"input_features": torch.randn(2, 80, 3000, device="cuda"), "labels": torch.randint(5, 2000, (2, 32), device="cuda")})


@model
def hf_clip():
    from transformers import CLIPConfig, CLIPModel

    net = CLIPModel(CLIPConfig(text_config=dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, vocab_size=2000), vision_config=dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=16)))
    train(net, lambda: {"input_ids": torch.randint(5, 2000, (4, 16), device="cuda"), "pixel_values": torch.randn(4, 3, 64, 64, device="cuda"), "return_loss": True})


@model
def hf_vit():
    from transformers import ViTConfig, ViTForImageClassification

    train(ViTForImageClassification(ViTConfig(image_size=96, hidden_size=192, num_hidden_layers=3, num_attention_heads=3, intermediate_size=384)), lambda: {"pixel_values": torch.randn(4, 3, 96, 96, device="cuda"), "labels": torch.randint(0, 2, (4,), device="cuda")})


@model
def hf_generate():
    from transformers import LlamaConfig, LlamaForCausalLM

    net = LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **SMALL)).cuda().eval()
    net.generate(torch.randint(5, 2000, (2, 10), device="cuda"), max_new_tokens=20, min_new_tokens=20, do_sample=False)


def timm_model(name, size=224):
    def build():
        import timm

        train(timm.create_model(name, pretrained=False), images(4, size))

    known[f"timm_{name}"] = build


for name in ("resnet26d", "vit_tiny_patch16_224", "efficientnet_lite0", "convnextv2_atto", "mixer_s16_224", "mobilevit_xs", "nfnet_l0", "levit_128s", "tf_efficientnetv2_b0", "ghostnet_100"):
    timm_model(name)


@model
def lightning_fit():
    import lightning as L

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

        def training_step(self, batch, _):
            x, y = batch
            return nn.functional.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    data = torch.utils.data.TensorDataset(torch.randn(128, 64), torch.randint(0, 10, (128,)))
    L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, precision="16-mixed").fit(Net(), torch.utils.data.DataLoader(data, batch_size=32))


@model
def graph_network():
    from torch_geometric.nn import GAT, GCN

    for kind in GCN, GAT:
        net = kind(32, 64, 2, 7).cuda()
        x, edges = torch.randn(500, 32, device="cuda"), torch.randint(0, 500, (2, 3000), device="cuda")
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(STEPS):
            nn.functional.cross_entropy(net(x, edges), torch.randint(0, 7, (500,), device="cuda")).backward()
            optimizer.step()
            optimizer.zero_grad()


@model
def accelerated():
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(net.parameters())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,))), batch_size=8)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            accelerator.backward(nn.functional.cross_entropy(net(x), y))
            optimizer.step()
            optimizer.zero_grad()


@model
def compiled():
    net = torch.compile(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256)).cuda())
    train(net, lambda: torch.randn(64, 256, device="cuda"), steps=3)


@model
def peft_lora():
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    net = get_peft_model(Qwen2ForCausalLM(Qwen2Config(num_key_value_heads=2, **SMALL)), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    train(net, tokens(2000))


@model
def sentence_encoder():
    from sentence_transformers import SentenceTransformer, models as parts
    from transformers import BertConfig, BertModel

    words = parts.Transformer.__new__(parts.Transformer)
    nn.Module.__init__(words)
    net = BertModel(BertConfig(**SMALL)).cuda().eval()
    pool = parts.Pooling(256)
    with torch.no_grad():
        ids = torch.randint(5, 2000, (8, 64), device="cuda")
        pool({"token_embeddings": net(input_ids=ids).last_hidden_state, "attention_mask": torch.ones_like(ids)})


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(known))
        sys.exit()
    for name in sys.argv[1:]:
        torch.manual_seed(0)
        known[name]()
        print(name, "done", flush=True)
