"""The model card that is saved beside a model, in the form the Hugging Face Hub reads."""

from dataclasses import asdict

from nonneg.models._config import ModelConfig

LIBRARY = "library_name: nonneg"
_CARD = """---
{library}
tags:
- nonneg
- contrastive-learning
- non-negative-features
- interpretability
---

# {title}

From {modality} to {features} features, made with nonneg ([Non-negative Contrastive
Learning](https://arxiv.org/abs/2403.12459)).

```python
import nonneg

model = nonneg.load("hub:owner/name")  # or the folder of this file
features = model.embed(source)
```

| field | value |
|---|---|
{rows}
"""


def model_card(config: ModelConfig) -> str:
    """Return the card: Markdown after a YAML header."""
    values = {**asdict(config), "modality": config.modality.name}
    rows = [f"| {name} | {_cell(value)} |" for name, value in values.items()]
    rows += [f"| {name} | {_cell(value)} |" for name, value in asdict(config.modality).items()]
    kind = "Contrastive" if config.rectify == "none" else "Non-negative"
    return _CARD.format(
        library=LIBRARY,
        title=f"{kind} features",
        modality=config.modality.name or "samples",
        features=config.features,
        rows="\n".join(rows),
    )


def _cell(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return " ".join(text.replace("|", "\\|").split())
