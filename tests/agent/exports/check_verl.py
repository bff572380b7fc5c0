"""Read exported rows with verl's own dataset and hand them to verl's own record of an agent loop and its advantages.

    python3.11 -m venv /tmp/verl && /tmp/verl/bin/pip install verl==0.9.1 cachetools uvicorn fastapi
    warpsmith sessions export --all --format verl --out tokens.jsonl
    warpsmith sessions export --all --format verl-tasks --out tasks.jsonl
    /tmp/verl/bin/python tests/agent/exports/check_verl.py tokens.jsonl tasks.jsonl

Needs no GPU. The tokenizer is made here, so that nothing is downloaded.
"""

import json
import sys
from pathlib import Path

import datasets
import torch
from check_chat import byte_tokenizer
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.core_algos import compute_gae_advantage_return
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn


def main(paths: list[str]) -> None:
    for path in paths:
        for name in (path, as_parquet(path)):
            config = OmegaConf.create({"max_prompt_length": 131_072, "filter_overlong_prompts_workers": 1})
            rows = RLHFDataset(name, byte_tokenizer(), config)
            sent = [json.loads(line) for line in Path(path).read_text().splitlines()]
            batch = collate_fn([rows[index] for index in range(len(rows))])
            if [list(prompt) for prompt in batch["raw_prompt"]] != [row["prompt"] for row in sent]:
                raise SystemExit(f"{name}: prompts were lost, or changed")
            print(
                f"{name}: {len(rows)} rows, agents {sorted(set(batch['agent_name']))}, indices {list(batch['index'])}"
            )
            if "response_ids" in batch:
                for row in (rows[index] for index in range(len(rows))):
                    learned(row)


def learned(row: dict) -> None:
    """Make of a row what an agent loop returns, and see that its reward reaches every token that the model wrote."""
    output = AgentLoopOutput(
        prompt_ids=row["prompt_ids"],
        response_ids=row["response_ids"],
        response_mask=row["response_mask"],
        response_logprobs=row["rollout_log_probs"],
        reward_score=row["reward"],
        num_turns=row["num_turns"],
        metrics={},
    ).as_dict()
    mask = output["response_mask"][None].float()
    rewards = torch.zeros_like(mask)
    rewards[0, -1] = row["reward"]
    values = torch.zeros_like(mask)
    _, returns = compute_gae_advantage_return(rewards, values, mask, torch.tensor(1.0), torch.tensor(1.0))
    got = returns[mask.bool()]
    if not torch.allclose(got, torch.full_like(got, row["reward"])):
        raise SystemExit(f"{row['extra_info']['session']}: its reward is lost: {got}")
    told = f"{int(mask.sum())} of {mask.numel()} tokens are the model's, each returns {got[0]:g}"
    print(f"  {row['extra_info']['session']} row {row['extra_info']['segment']}: {told}")


def as_parquet(path: str) -> str:
    """Write the rows as parquet beside the file, as clusters want them, and return its name."""
    name = str(Path(path).with_suffix(".parquet"))
    datasets.load_dataset("json", data_files=path, split="train").to_parquet(name)
    return name


if __name__ == "__main__":
    main(sys.argv[1:])
