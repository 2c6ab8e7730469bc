"""The server: pages, pictures, and the JSON that the pages are made of."""

from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool

from nonneg import __version__
from nonneg.errors import InputError
from nonneg.explorer import _answers as answers
from nonneg.explorer._explorer import Explorer
from nonneg.explorer._guard import Guard
from nonneg.explorer._media import content_type

STATIC = resources.files("nonneg.explorer") / "static"
_LARGEST_PICTURE = 20_000_000  # bytes; the guard refuses larger requests of other kinds
_REFUSALS: dict[int | str, dict[str, Any]] = {404: {"model": answers.Refusal}, 422: {"model": answers.Refusal}}
_PAGES = ("/", "/features", "/feature/{number}", "/sample/{number}", "/compose", "/compare", "/try", "/reference")


def build_app(
    explorer: Explorer, *, host: str = "127.0.0.1", token: str | None = None, read_only: bool = False
) -> FastAPI:
    """The whole application over what an `Explorer` knows."""
    # FastAPI's own pages of documentation load from elsewhere; /reference shows the same.
    app = FastAPI(title="nonneg explorer", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, host=host, token=token, read_only=read_only)
    app.mount("/static", StaticFiles(directory=str(STATIC)), "static")
    _add_errors(app)
    _add_pages(app)
    _add_reading(app, explorer, read_only)
    _add_writing(app, explorer)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    def refuse_request(request: Request, error: RequestValidationError) -> JSONResponse:
        """In one sentence, without what was sent: that may be long, or nothing that JSON can hold."""
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])[:200].encode("ascii", "replace").decode()
        return JSONResponse({"detail": f"{where or 'the request'}: {first['msg']}"}, 422)


def _add_pages(app: FastAPI) -> None:
    def page() -> FileResponse:
        return FileResponse(str(STATIC / "index.html"), media_type="text/html")

    for path in _PAGES:
        app.add_api_route(path, page, include_in_schema=False)


def _add_reading(app: FastAPI, explorer: Explorer, read_only: bool) -> None:
    @app.get("/api/overview")
    def overview() -> answers.Overview:
        """What there is: one or two sets of features, at a glance."""
        return explorer.overview(can_write=not read_only)

    @app.get("/api/sets/{number}/figures", responses=_REFUSALS)
    def figures(number: int) -> answers.Figures:
        """Consistency beside chance, and how much features say that no other does."""
        return explorer.figures(number)

    @app.get("/api/sets/{number}/features", responses=_REFUSALS, response_model=answers.FeatureTable)
    def features(number: int) -> Response:
        """All features, a line each."""
        # Thousands of lines: checked when they are made, and not once more on the way out.
        return Response(explorer.table(number).model_dump_json(), media_type="application/json")

    @app.get("/api/sets/{number}/strip/{feature}", responses=_REFUSALS)
    def strip(number: int, feature: int) -> answers.Strip:
        """A feature's nine strongest samples."""
        return explorer.strip(number, feature)

    @app.get("/api/sets/{number}/feature/{feature}", responses=_REFUSALS)
    def feature(number: int, feature: int) -> answers.FeaturePage:
        """Everything about one feature."""
        return explorer.feature(number, feature)

    @app.get("/api/sets/{number}/sample/{row}", responses=_REFUSALS)
    def sample(
        number: int, row: int, off: Annotated[list[int] | None, Query(max_length=1000)] = None
    ) -> answers.SamplePage:
        """A sample, its features, and its neighbours without the features that are switched off."""
        return explorer.sample(number, row, off or [])

    @app.get("/api/comparison", responses=_REFUSALS)
    def comparison() -> answers.Comparison:
        """The two sets matched to each other."""
        return explorer.comparison()

    @app.get("/media/{number}/{row}", responses=_REFUSALS, response_class=Response)
    def picture(number: int, row: int) -> Response:
        """A sample's image."""
        content = explorer.picture(number, row)
        kind = content_type(content)
        if kind is None:
            raise HTTPException(404, f"sample {row} has no image, expected a PNG or a JPEG")
        return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=86400, immutable"})


def _add_writing(app: FastAPI, explorer: Explorer) -> None:
    @app.post("/api/sets/{number}/search", responses=_REFUSALS)
    def search(number: int, query: answers.Query) -> answers.Found:
        """Samples by features, examples and exclusions. Changes nothing."""
        return explorer.search(number, query)

    @app.put("/api/sets/{number}/feature/{feature}/name", responses={409: {"model": answers.Refusal}, **_REFUSALS})
    def name(number: int, feature: int, given: answers.NewName) -> answers.Named:
        """Name a feature. 409 if it has been called something else since."""
        named = explorer.name(number, feature, given)
        if named is None:
            raise HTTPException(409, "somebody has named this feature meanwhile, expected the name that was shown")
        return named

    @app.post("/api/sets/{number}/encode-text", responses=_REFUSALS)
    def encode_text(number: int, given: answers.NewText) -> answers.Encoded:
        """The features of a text. Nothing is kept."""
        return explorer.encode_text(number, given.text)

    @app.post("/api/sets/{number}/encode", responses=_REFUSALS)
    async def encode(number: int, request: Request) -> answers.Encoded:
        """The features of an image that is sent as it is, a PNG or a JPEG. Nothing is kept."""
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > _LARGEST_PICTURE:
                raise HTTPException(413, f"the image is larger than {_LARGEST_PICTURE:,} bytes, expected a smaller one")
        if content_type(bytes(content)) is None:
            raise HTTPException(422, "the file is no image that can be read, expected a PNG or a JPEG")
        return await run_in_threadpool(explorer.encode, number, bytes(content))
