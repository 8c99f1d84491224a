"""Advantages by group on a bandit: a trainer with PyTorch that leaves its numbers."""
import hashlib, json, os
import torch

torch.manual_seed(7)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
payoff = torch.rand(4, 8)  # of four prompts, eight answers each
policy = torch.nn.Sequential(torch.nn.Embedding(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
optimizer = torch.optim.AdamW(policy.parameters(), lr=0.05)
prompts = torch.arange(4).repeat_interleave(16)
metrics = {"reward": [], "loss": [], "grad_norm": []}
for step in range(5):
    log_probs = policy(prompts).log_softmax(-1)
    answers = torch.multinomial(log_probs.detach().exp(), 1).squeeze(1)
    rewards = payoff[prompts, answers].view(4, 16)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
    chosen = log_probs.gather(1, answers[:, None]).squeeze(1)
    loss = -(advantages.flatten() * chosen).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    metrics["reward"].append(rewards.mean().item())
    metrics["loss"].append(loss.item())
    metrics["grad_norm"].append(norm.item())
weights = b"".join(p.detach().numpy().tobytes() for p in policy.parameters())
metrics["weights"] = hashlib.sha256(weights).hexdigest()
with open(os.environ["RLBISECT_OUT"] + "/metrics.json", "w") as file:
    json.dump(metrics, file)
