"""The explorer: a web page that shows what each feature means."""

from nonneg.extras import needs_extra

with needs_extra("page", "the page"):  # checked before anything else is imported
    import fastapi  # noqa: F401
    import numba  # noqa: F401
    import uvicorn  # noqa: F401

from nonneg.explorer._explorer import Explorer
from nonneg.explorer._export import export, needs_server
from nonneg.explorer._open import open_explorer
from nonneg.explorer._serve import Page, explore
from nonneg.explorer._server import build_app

__all__ = ["Explorer", "Page", "build_app", "explore", "export", "needs_server", "open_explorer"]
