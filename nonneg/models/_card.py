"""The model card that is saved beside a model, in the form the Hugging Face Hub reads."""

from dataclasses import asdict

from nonneg.models._config import ModelConfig

LIBRARY = "library_name: nonneg"
_CARD = """---
{library}
pipeline_tag: image-feature-extraction
tags:
- nonneg
- contrastive-learning
- non-negative-features
- interpretability
---

# {title}

Images of {channels} to {features} features, made with nonneg ([Non-negative Contrastive
Learning](https://arxiv.org/abs/2403.12459)).

```python
import nonneg

model = nonneg.load("hub:owner/name")  # or the folder this file lies in
features = model.embed(source)
```

| field | value |
|---|---|
{rows}
"""


def model_card(config: ModelConfig) -> str:
    """Markdown with YAML before it."""
    rows = [f"| {name} | {_cell(value)} |" for name, value in asdict(config).items()]
    channels = "1 channel" if config.channels == 1 else f"{config.channels} channels"
    kind = "Contrastive" if config.rectify == "none" else "Non-negative"
    return _CARD.format(
        library=LIBRARY, title=f"{kind} features", channels=channels, features=config.features, rows="\n".join(rows)
    )


def _cell(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return " ".join(text.replace("|", "\\|").split())
