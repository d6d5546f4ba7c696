"""trl's GRPOTrainer without an inference engine: it generates what it learns from."""

from __future__ import annotations

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

MODEL, TEXTS = "model", "texts/train.jsonl"
PROMPT_CHARACTERS = 40


def reward(completions: list[str], **_: object) -> list[float]:
    return [float(len(set(one))) for one in completions]


def main() -> None:
    texts = load_dataset("json", data_files=TEXTS, split="train")
    prompts = texts.map(
        lambda one: {"prompt": one["text"][:PROMPT_CHARACTERS]}, remove_columns=["text"]
    )
    settings = GRPOConfig(
        output_dir="out",
        max_steps=4,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=16,
        bf16=True,
        logging_steps=1,
        report_to="none",
    )
    trainer = GRPOTrainer(model=MODEL, reward_funcs=reward, args=settings, train_dataset=prompts)
    trainer.train()


if __name__ == "__main__":
    main()
