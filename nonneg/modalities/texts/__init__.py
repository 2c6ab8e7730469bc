"""Texts: their sources, tokenizers, views, encoders and previews."""

from nonneg.modalities.texts._modality import Texts
from nonneg.modalities.texts._rows import TextRows
from nonneg.modalities.texts._tokenizer import Tokenizer, fit_tokenizer
from nonneg.modalities.texts._views import ViewConfig, token_views
from nonneg.modalities.texts.encoders import Transformer
from nonneg.modalities.texts.sources import open_texts

__all__ = ["TextRows", "Texts", "Tokenizer", "Transformer", "ViewConfig", "fit_tokenizer", "open_texts", "token_views"]
