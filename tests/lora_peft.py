"""Adapters that lora.c trained load in PEFT, with the same output: peft_check.py BASE ADAPTED PREDICTIONS."""
import json, sys, tempfile, torch
from peft import LoraConfig, get_peft_model
from peft.utils import set_peft_model_state_dict
from safetensors.torch import load_file, save_file
base, trained = load_file(sys.argv[1] + "/model.safetensors"), load_file(sys.argv[2] + "/model.safetensors")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(64, 256), torch.nn.Linear(256, 10)
    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))
net = Net()
net.load_state_dict({n: w.T if w.dim() == 2 else w for n, w in base.items()})
model = get_peft_model(net, LoraConfig(r=8, lora_alpha=16, target_modules=["hidden", "out"]))
adapters = {n: w for n, w in trained.items() if ".lora_" in n}
loaded = set_peft_model_state_dict(model, adapters)
assert not loaded.unexpected_keys and not [k for k in loaded.missing_keys if "lora_" in k], loaded
worst = 0.0
for line in open(sys.argv[3]):
    row = json.loads(line)
    p = [(ord(c) - ord("a")) / 16 for c in row["example"]["pixels"]]
    x = torch.tensor([[p[i // 8 * 8 + 7 - i % 8] for i in range(64)]])
    worst = max(worst, (model(x)[0] - torch.tensor(row["prediction"])).abs().max().item())
print("largest difference of a logit", worst)
assert worst < 1e-4
